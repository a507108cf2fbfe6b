"""The examples in docstrings run, and print what they say; every public name at the top has one."""

from __future__ import annotations

import doctest
import importlib
import inspect

import pytest

import otspec

PACKAGES = (
    "otspec",
    "otspec.auditing",
    "otspec.data",
    "otspec.paths",
    "otspec.plans",
    "otspec.proofs_check",
    "otspec.schemes",
    "otspec.solvers",
    "otspec.verification",
    "otspec.vocab",
)
"""Those that need no torch."""

PUBLIC = {
    f"{package}.{name}": found
    for package in PACKAGES
    for name in importlib.import_module(package).__all__
    if inspect.isclass(found := getattr(importlib.import_module(package), name)) or inspect.isfunction(found)
}
WITH_EXAMPLES = {name: found for name, found in PUBLIC.items() if ">>> " in (found.__doc__ or "")}


def test_every_name_at_the_top_has_an_example() -> None:
    bare = [name for name in otspec.__all__ if f"otspec.{name}" in PUBLIC and f"otspec.{name}" not in WITH_EXAMPLES]
    assert bare == []


@pytest.mark.parametrize("found", dict.fromkeys(WITH_EXAMPLES.values()), ids=lambda found: found.__name__)
def test_an_example_prints_what_it_says(found: object) -> None:
    name = getattr(found, "__qualname__", "")
    (example,) = doctest.DocTestFinder(recurse=False).find(found, name, globs={})
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    told: list[str] = []
    runner.run(example, out=told.append)
    assert "".join(told) == ""
