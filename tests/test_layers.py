"""Imports run one way: from each room to those below it, also inside functions, and nowhere in a circle."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
LAYERS = (
    ("caches",),
    ("tolerances", "errors", "jit", "lazy"),
    ("laws", "extras", "locking", "pickles", "writing"),
    ("reporting",),
    ("kernels", "vocab"),
    ("schemes",),
    ("problem",),
    ("plans",),
    ("certificate",),
    ("results", "data"),
    ("solver",),
    ("solvers",),
    ("catalogue",),
    ("solving",),
    ("pricing",),
    ("verification",),
    ("warming", "paths"),
    ("auditing",),
    ("decode",),
    ("engines",),
    ("bench", "proofs_check"),
    ("engine_audit",),
    ("testing",),
    ("cli",),
    ("__main__", "benchmarks"),
)
"""The rooms of the house, from the ground up.  A module imports from its own room and from lower layers."""

INSIDE = {
    "otspec.decode": (
        ("base",),
        ("models",),
        ("pacing", "lessons"),
        ("drafters",),
        ("settings",),
        ("verify",),
        ("step",),
        ("shipped",),
        ("pair",),
        ("methods",),
        ("tuning", "training", "recording"),
        ("generation",),
    ),
    "otspec.verification": (
        ("tensors",),
        ("trees",),
        ("rules",),
        ("device",),
        ("floats",),
        ("one",),
        ("logits", "batch"),
        ("reference",),
        ("evaluation",),
        ("bounds",),
    ),
    "otspec.verification.rules": (
        ("interval", "protocol"),
        ("buckets",),
        ("block",),
        ("nested", "token_wise"),
        ("traversal", "layer", "hierarchical", "match", "pick_by_plan"),
        ("catalogue",),
    ),
    "otspec.decode.models": (
        ("fingerprint",),
        ("passes", "tokens"),
        ("context",),
        ("target", "pairing", "after"),
        ("self_check",),
        ("head",),
    ),
}
"""The rooms inside some rooms, from the ground up, by the same rule: a folder or a module each."""

RANK = {room: rank for rank, rooms in enumerate(LAYERS) for room in rooms}
FORBIDDEN = {("proofs_check", "bench"), ("benchmarks", "bench"), ("benchmarks", "cli")}
"""What is lower and may not be imported all the same: `reporting` has what they share."""


class Import(NamedTuple):
    """One module imports another, at some line."""

    importer: str
    imported: str
    line: int


@cache
def modules() -> dict[str, Path]:
    """Every module by its dotted name, the folders beside otspec by the names they have once installed."""
    found = {}
    for folder, name in (
        ("otspec", "otspec"),
        ("solvers", "otspec.solvers"),
        ("proofs_check", "otspec.proofs_check"),
        ("benchmarks", "benchmarks"),
    ):
        for path in (ROOT / folder).glob("**/*.py"):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            if folder == "otspec" and parts[0] in ("solvers", "proofs_check"):
                continue  # links
            found[".".join((name, *(part for part in parts if part != "__init__")))] = path
    return found


@cache
def imports() -> tuple[Import, ...]:
    """Every import of one module of ours by another, those inside functions and for the type checker included."""
    return tuple(found for name, path in modules().items() for found in _imports_of(name, path))


def _imports_of(name: str, path: Path) -> Iterator[Import]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name in modules():
                    yield Import(name, alias.name, node.lineno)
        elif isinstance(node, ast.ImportFrom) and node.module in modules():
            for alias in node.names:
                submodule = f"{node.module}.{alias.name}"
                yield Import(name, submodule if submodule in modules() else node.module, node.lineno)


def room_of(module: str) -> str:
    first, _, rest = module.partition(".")
    return rest.partition(".")[0] if first == "otspec" else first


def test_there_are_imports_to_look_at() -> None:
    assert len(modules()) > 200
    assert len(imports()) > 1000


def test_every_room_has_a_place() -> None:
    assert {room_of(module) for module in modules()} - {""} == RANK.keys()


def test_imports_run_downwards() -> None:
    wrong = [
        f"{modules()[found.importer].relative_to(ROOT)}:{found.line} imports {found.imported}"
        for found in imports()
        if found.importer != "otspec" and found.imported != "otspec"  # the package itself imports only when asked
        for above, below in [(room_of(found.importer), room_of(found.imported))]
        if above != below and (RANK[above] <= RANK[below] or (above, below) in FORBIDDEN)
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("outer", INSIDE)
def test_imports_inside_a_room_run_downwards(outer: str) -> None:
    rank = {room: number for number, rooms in enumerate(INSIDE[outer]) for room in rooms}

    def inner(module: str) -> str:
        return module.removeprefix(f"{outer}.").partition(".")[0] if module.startswith(f"{outer}.") else ""

    assert {inner(module) for module in modules()} - {""} == rank.keys()
    wrong = [
        f"{modules()[found.importer].relative_to(ROOT)}:{found.line} imports {found.imported}"
        for found in imports()
        for above, below in [(inner(found.importer), inner(found.imported))]
        if above and (below or found.imported == outer) and above != below
        if not below or rank[above] <= rank[below]
    ]
    assert not wrong, "\n".join(wrong)


def test_inside_the_package_nobody_imports_the_whole_of_it() -> None:
    """What `otspec` offers is above everything: code below that used it would run in a circle."""
    wrong = [
        f"{found.importer}:{found.line}"
        for found in imports()
        if found.imported == "otspec" and RANK.get(room_of(found.importer), 0) < RANK["cli"]
    ]
    assert not wrong, wrong


def test_there_is_no_circle() -> None:
    graph: dict[str, set[str]] = {}
    for found in imports():
        if found.importer != "otspec":
            graph.setdefault(found.importer, set()).add(found.imported)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        raise AssertionError(" imports ".join(reversed(error.args[1]))) from None
