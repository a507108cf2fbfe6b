"""Former public names: they work for one release, or say where to go."""

from __future__ import annotations

from typing import NamedTuple

import pytest

import otspec.errors
from otspec.deprecation import former_field, former_names

LOOKUP = former_names(
    "otspec.errors",
    {"LawError": "ProblemError", "Draft": "otspec.schemes:DraftScheme"},
    {"Fuzzy": "see docs/tried.md"},
)


def test_a_former_name_gives_the_present_object_and_a_warning() -> None:
    with pytest.warns(FutureWarning, match="LawError is now called otspec.errors.ProblemError"):
        assert LOOKUP("LawError") is otspec.errors.ProblemError


def test_the_present_name_may_be_elsewhere() -> None:
    with pytest.warns(FutureWarning, match="Draft is now called otspec.schemes.DraftScheme"):
        assert LOOKUP("Draft") is otspec.DraftScheme


def test_a_name_that_is_gone_says_where_to_read_why() -> None:
    with pytest.raises(AttributeError, match=r"otspec.errors.Fuzzy is gone: see docs/tried.md"):
        LOOKUP("Fuzzy")


def test_an_unknown_name_is_unknown() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Foggy'"):
        LOOKUP("Foggy")


class Found(NamedTuple):
    """A result, one of whose fields had another name."""

    valid: int

    @property
    def sound(self) -> int:
        """The former name."""
        return int(former_field(self, "sound", "valid"))


def test_a_former_field_gives_the_present_one_and_a_warning_where_it_is_read() -> None:
    with pytest.warns(FutureWarning, match="Found.sound is now called Found.valid; the old name goes") as caught:
        assert Found(3).sound == 3
    assert caught[0].filename == __file__
