"""Every name of `otspec.decode` has an example in its docstring, which runs; they share one pair of models."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from otspec.decode import shipped
from tests.examples import has_example, public, told_by, without_example

PUBLIC = public(["otspec.decode"])
MEASURING = {"otspec.decode.Tuning", "otspec.decode.tune"}
"""They time two models for many seconds."""


@pytest.fixture(autouse=True, scope="module")
def one_pair() -> Iterator[None]:
    """Loaded once for all examples."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shipped, "load", cache(shipped.load))
        yield


def test_every_name_has_an_example() -> None:
    assert without_example(PUBLIC) == MEASURING


@pytest.mark.parametrize("found", [one for one in PUBLIC.values() if has_example(one)], ids=lambda one: one.__name__)
def test_an_example_prints_what_it_says(found: object) -> None:
    assert told_by(found) == ""
