"""What the tests rest on: the loop inside them, and that what they are tried on is what it says."""

import inspect
from typing import NamedTuple

import pytest

from tests.each import each


class Named(NamedTuple):
    name: str
    value: int


def test_runs_for_every_combination_goes_on_after_a_failure_and_names_all_that_fail() -> None:
    seen = []

    @each(instance=[Named(f"ties-{i}", i) for i in range(5)], letter={"first": "a"})
    def test(engine: str, instance: Named, letter: str) -> None:
        seen.append((engine, instance.value, letter))
        assert instance.value != 1, "one is wrong"
        if instance.value == 3:
            pytest.fail("three as well")
        if instance.value == 4:
            raise ZeroDivisionError

    assert list(inspect.signature(test).parameters) == ["engine"]  # all that pytest has to make
    with pytest.raises(AssertionError) as caught:
        test(engine="numba")
    assert seen == [("numba", number, "a") for number in range(5)]
    lines = str(caught.value).splitlines()
    assert lines[0].startswith("3 of 5 fail: instance=ties-1, letter=first; ")
    assert lines[1].startswith("instance=ties-1, letter=first: AssertionError: one is wrong")
    assert "one is wrong" in str(caught.value.__cause__)  # shown with its traceback
