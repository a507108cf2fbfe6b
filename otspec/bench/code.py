"""Which code ran: an edited solver must not pass for what was measured before the edit."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import otspec.solvers
from otspec.catalogue import get


@cache
def package_digest() -> str:
    """Of every source file of this package, and of the solvers, which a checkout has beside it."""
    return digest([*sources(Path(__file__).parents[1]), *sources(*map(Path, otspec.solvers.__path__))])


def solver_digest(spelling: str) -> str:
    """Of the sources of a solver that does not come with this package; empty for one that does.

    Of a solver in a package, all of the package; of one in a single file, that file.
    """
    module = type(get(spelling)).__module__
    top = module.partition(".")[0]
    return "" if top == "otspec" else _digest_of_module(top)


@cache
def _digest_of_module(name: str) -> str:
    module = sys.modules.get(name)
    spec = find_spec(name) if module is None else module.__spec__
    if spec is None:  # typed at a prompt
        return "unknown"
    if spec.submodule_search_locations:
        return digest(sources(*map(Path, spec.submodule_search_locations)))
    return digest([(name, Path(spec.origin))]) if spec.origin and Path(spec.origin).is_file() else "unknown"


def sources(*roots: Path) -> list[tuple[str, Path]]:
    """Every source file below some folders, by its place."""
    return sorted((path.relative_to(root).as_posix(), path) for root in roots for path in root.rglob("*.py"))


def digest(files: Iterable[tuple[str, Path]]) -> str:
    """Of files by their place and content."""
    whole = hashlib.sha256()
    for name, path in files:
        whole.update(name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return whole.hexdigest()[:16]
