"""Calls that are refused, each in a sentence of its own."""

from collections.abc import Callable, Iterable

import pytest

from otspec.errors import ProblemError
from tests.each import check_each

Refused = tuple[Callable[[], object], str]
"""A call, and what is said, as a regular expression."""


def check_refused(calls: Iterable[Refused], error: type[Exception] = ProblemError) -> None:
    """All of them are; those that are not fail together, by what was to be said."""

    def check(case: Refused) -> None:
        call, message = case
        with pytest.raises(error, match=message):
            call()

    check_each(check, case={f"{number}, {one[1]}": one for number, one in enumerate(calls)})
