"""The sizes that a few people can own: caps that are raised only by a commit that says why."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from otspec.cli import app

ROOT = Path(__file__).parents[1]
REST = "otspec"
"""What is in none of the rooms below it."""
LINES = {
    "otspec/auditing": 6_700,
    "otspec/bench": 4_500,
    "otspec/cli": 3_900,
    "otspec/data": 1_600,
    "otspec/decode": 19_900,
    "otspec/engines": 400,
    "otspec/verification": 12_200,
    REST: 12_800,
    "solvers": 4_100,
    "proofs_check": 11_600,
    "tests": 28_200,
    "benchmarks": 5_400,
}
"""Lines of Python that a room may have: what stands, rounded up to the next hundred."""
COMMANDS = 16
"""Of `otspec`, those of groups among them."""
PARAMETERS = 20
"""Of a function that is no compiled kernel."""
PRIVATE = {"told", "given", "asked"}
"""Names of no parameter."""
LONGEST = 60
"""Lines of a function of the commands: what is longer belongs into the library."""
NAMES = 300
"""In all `__all__` together."""
COMPILERS = ("triton", "numba", "jit", "njit", "vectorize", "guvectorize")
"""Words of the decorators of kernels."""


def sources(room: str) -> Iterator[Path]:
    """The files of a room; what links lead to is of the room that it is in."""
    for path in sorted((ROOT / room).rglob("*.py")):
        place = path.relative_to(ROOT)
        linked = any((ROOT / part).is_symlink() for part in place.parents)
        if not linked and not (room == REST and any(place.is_relative_to(other) for other in LINES if other != REST)):
            yield path


@pytest.mark.parametrize("room", LINES)
def test_a_room_has_no_more_lines_than_its_cap(room: str) -> None:
    lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in sources(room))
    assert 0 < lines <= LINES[room], f"{room} has {lines} lines: take something out, or say in a commit why it may grow"


def commands(of: Any, name: str = "otspec") -> list[str]:
    """All that can be called, by name."""
    inner = [found for word, one in getattr(of, "commands", {}).items() for found in commands(one, f"{name} {word}")]
    return inner if inner and not of.invoke_without_command else [name, *inner]


def test_there_are_no_more_commands_than_the_cap() -> None:
    found = commands(typer.main.get_command(app))
    assert {"otspec solve", "otspec bench", "otspec bench paths"} <= set(found)
    assert len(found) <= COMMANDS, found


def functions(room: str) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """With their places."""
    for path in sources(room):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{path}, line {node.lineno}: {node.name}", node


def test_no_function_has_more_parameters_than_the_cap() -> None:
    every = [one for room in LINES for one in functions(room)]
    assert len(every) > 1000
    for place, node in every:
        if not any(word in ast.unparse(decorator) for decorator in node.decorator_list for word in COMPILERS):
            names = {one.arg for one in ast.walk(node.args) if isinstance(one, ast.arg)}
            assert len(names) <= PARAMETERS, f"{place} has {len(names)} parameters"
            assert not names & PRIVATE, f"{place} has {names & PRIVATE}, and the field has words for what is meant"


def test_no_function_of_the_commands_is_longer_than_the_cap() -> None:
    for place, node in functions("otspec/cli"):
        lines = (node.end_lineno or node.lineno) - node.lineno + 1
        assert lines <= LONGEST, f"{place} has {lines} lines"


def test_no_more_names_are_exported_than_the_cap() -> None:
    count = 0
    for room in (room for room in LINES if room not in ("tests", "benchmarks")):
        for text in (path.read_text(encoding="utf-8") for path in sources(room)):
            for node in ast.parse(text).body if "__all__" in text else []:
                targets = node.targets if isinstance(node, ast.Assign) else []
                if any(isinstance(one, ast.Name) and one.id == "__all__" for one in targets):
                    count += len(ast.literal_eval(node.value))  # type: ignore[attr-defined]
    assert 100 < count <= NAMES
