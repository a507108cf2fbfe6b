"""Functions of the user's, named on the command line."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from otspec.errors import ProblemError


def load(name: str) -> Any:
    """The object that ``module:name`` or ``path/to/file.py:name`` stands for; the name may have dots.

    The working directory is searched for modules, too.
    """
    source, _, path = name.rpartition(":")
    found: Any = load_module(source)
    for part in path.split("."):
        if not hasattr(found, part):
            raise ProblemError(f"{source} has no {path!r}")
        found = getattr(found, part)
    return found


def file_of(name: str | None) -> Path | None:
    """The file that a name as `load` takes it is read from, if that is a file here."""
    source = (name or "").rpartition(":")[0]
    return Path(source if source.endswith(".py") else f"{source.replace('.', '/')}.py") if source else None


def load_module(name: str) -> ModuleType:
    """The module of this name, or in this file: ``package.module`` or ``path/to/file.py``."""
    try:
        return _file(Path(name)) if name.endswith(".py") else _module(name)
    except ModuleNotFoundError as error:
        raise ProblemError(f"{name} imports {error.name}, which is not installed; install it") from error


def _file(path: Path) -> ModuleType:
    if not path.is_file():
        raise ProblemError(f"there is no file {path}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def _module(name: str) -> ModuleType:
    if not all(part.isidentifier() for part in name.split(".")):
        raise ProblemError(f"{name!r} is not the name of a module; write package.module, or path/to/file.py")
    if "" not in sys.path:
        sys.path.insert(0, "")  # as python -m does; an installed command starts without it
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and name.startswith(error.name):
            raise ProblemError(f"there is no module {name}, here or installed") from error
        raise
