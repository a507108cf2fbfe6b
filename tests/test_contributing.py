"""The table of CONTRIBUTING.md that says which tests to run has every room, and leads to tests that are there."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "CONTRIBUTING.md").read_text()
ROW = re.compile(r"^\| (`[^|]+`) \| (`[^|]+`) \|$", re.MULTILINE)


def table() -> list[tuple[list[str], list[str]]]:
    """Rooms and tests of every row."""
    found = [tuple(re.findall(r"`([^`]+)`", cell) for cell in row) for row in ROW.findall(PAGE)]
    return [(rooms, tests) for rooms, tests in found]


def rooms() -> set[str]:
    """Everything in the package that is a folder or a module, the same inside decode, and the folders beside it."""
    package = ROOT / "otspec"
    folders = {f"otspec/{init.parent.name}" for init in package.glob("*/__init__.py")}
    modules = {f"otspec/{path.name}" for path in package.glob("*.py") if path.name != "__init__.py"}
    floors = {f"otspec/decode/{init.parent.name}" for init in package.glob("decode/*/__init__.py")}
    modules |= {f"otspec/decode/{path.name}" for path in package.glob("decode/*.py") if path.name != "__init__.py"}
    links = {"otspec/solvers", "otspec/proofs_check"}
    return (folders | modules | floors) - links | {"solvers", "proofs_check", "benchmarks"}


def test_every_room_is_in_one_row() -> None:
    listed = [room for row, _ in table() for room in row]
    assert sorted(listed) == sorted(rooms())


def test_the_tests_are_there() -> None:
    assert len(table()) > 15
    for row, tests in table():
        for path in tests:
            assert (ROOT / path).exists(), (row, path)
            assert path.startswith("tests/")


def test_no_folder_of_tests_is_forgotten() -> None:
    """A folder of tests that nobody is sent to is one that nobody runs before a commit."""
    sent = {path for _, tests in table() for path in tests}
    for init in (ROOT / "tests").glob("*/__init__.py"):
        assert any(path.startswith(f"tests/{init.parent.name}") for path in sent), init.parent.name


def test_hooks_and_make_run_the_tools_that_are_pinned() -> None:
    hooks, makefile = (ROOT / ".pre-commit-config.yaml").read_text(), (ROOT / "Makefile").read_text()
    pinned = (ROOT / "constraints.txt").read_text()
    tools = re.findall(r"entry: \.venv/bin/(\S+)", hooks)
    assert sorted(tools) == ["mypy", "ruff", "ruff"]
    for tool in set(tools):
        assert re.search(rf"^{tool}==", pinned, re.MULTILINE)
        assert f"$(BIN)/{tool}" in makefile
    assert "--constraint constraints.txt" in makefile
    dev = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["dev"]
    assert set(tools) <= set(dev)
