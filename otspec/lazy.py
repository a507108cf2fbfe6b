"""Public names of a package that are imported on first use."""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any


def attach(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Make ``__getattr__`` and ``__dir__`` of a package from what its source imports for type checkers.

    A public name is then written once, in an import behind ``if TYPE_CHECKING``, and linters compare it with
    ``__all__``.

    Parameters
    ----------
    package : str
        Its ``__name__``.

    Returns
    -------
    tuple of callable
        The first gives the object of a name, which the package then holds, and raises `AttributeError` for all else.

    Examples
    --------
    >>> from otspec.lazy import attach
    >>> find, names = attach("otspec.auditing")
    >>> find("AuditVerdict").__name__
    'AuditVerdict'
    >>> find("Fuzzy")
    Traceback (most recent call last):
        ...
    AttributeError: module 'otspec.auditing' has no attribute 'Fuzzy'
    """

    def find(name: str) -> Any:
        if name not in (homes := _homes(package)):
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if homes[name] == package:
            value: Any = importlib.import_module(f"{package}.{name}")
        else:
            value = getattr(importlib.import_module(homes[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *_homes(package)})

    return find, names


@cache
def _homes(package: str) -> Mapping[str, str]:
    """The module that each name is from."""
    found: dict[str, str] = {}
    source = Path(vars(sys.modules[package])["__file__"]).read_text(encoding="utf-8")
    for block in ast.parse(source).body:
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING":
            for one in block.body:
                if isinstance(one, ast.ImportFrom) and one.module is not None:
                    found |= {alias.name: one.module for alias in one.names}
    return found
