"""What the tests rest on: the loop inside them, and that what they are tried on is what it says."""

import inspect
from typing import NamedTuple

import pytest

from tests.each import each


class Named(NamedTuple):
    name: str
    value: int


def test_runs_for_every_combination_and_passes_fixtures_on() -> None:
    seen = []

    @each(number=(1, 2), letter={"first": "a", "second": "b"})
    def test(engine: str, number: int, letter: str) -> None:
        seen.append((engine, number, letter))

    assert list(inspect.signature(test).parameters) == ["engine"]  # all that pytest has to make
    test(engine="numba")
    assert seen == [("numba", 1, "a"), ("numba", 1, "b"), ("numba", 2, "a"), ("numba", 2, "b")]


def test_goes_on_after_a_failure_and_names_all_that_fail() -> None:
    seen = []

    @each(instance=[Named(f"ties-{i}", i) for i in range(5)])
    def test(instance: Named) -> None:
        seen.append(instance.value)
        assert instance.value != 1, "one is wrong"
        if instance.value == 3:
            pytest.fail("three as well")
        if instance.value == 4:
            raise ZeroDivisionError

    with pytest.raises(AssertionError) as caught:
        test()
    assert seen == [0, 1, 2, 3, 4]
    lines = str(caught.value).splitlines()
    assert lines[0] == "3 of 5 fail: ties-1; ties-3; ties-4"
    assert lines[1].startswith("ties-1: AssertionError: one is wrong")
    assert lines[2:] == ["ties-3: Failed: three as well", "ties-4: ZeroDivisionError"]
    assert "one is wrong" in str(caught.value.__cause__)  # shown with its traceback


def test_refuses_to_run_for_nothing_and_arguments_that_the_test_does_not_take() -> None:
    with pytest.raises(ValueError, match="seed has no values"):
        each(seed=())
    with pytest.raises(TypeError, match="test does not take instances"):

        @each(instances=(1,))
        def test(instance: int) -> None: ...
