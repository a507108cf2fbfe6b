"""Every public name has an example in its docstring, which runs and prints what it says."""

from __future__ import annotations

import pytest

from tests.examples import has_example, public, told_by, without_example

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
"""Those that need no torch; tests/decode/test_docstring_examples.py has the one that does."""

PUBLIC = public(PACKAGES)
RECORDED = {"otspec.data.TopSource", "otspec.data.TreeSource"}
"""Files that `otspec record` writes with two language models: an example would have none to read."""
EXTRAS = {
    "otspec.solvers.LP": "highspy",
    "otspec.solvers.Canonical": "cvxpy",
    "otspec.vocab.gather": "safetensors",
    "otspec.vocab.load_affinity": "safetensors",
    "otspec.vocab.load_estimate": "safetensors",
}
"""Optional packages that an example takes."""


def test_every_name_has_an_example() -> None:
    assert without_example(PUBLIC) == RECORDED


@pytest.mark.parametrize(("found", "name"), {one: name for name, one in PUBLIC.items() if has_example(one)}.items())
def test_an_example_prints_what_it_says(found: object, name: str) -> None:
    if name in EXTRAS:
        pytest.importorskip(EXTRAS[name])
    assert told_by(found) == ""


def test_a_wrong_example_is_told() -> None:
    def wrong() -> None:
        """Add.

        Examples
        --------
        >>> 1 + 1
        3
        """

    assert "Expected:\n    3\nGot:\n    2" in told_by(wrong)
