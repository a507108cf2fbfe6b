"""What the tests rest on: the loop inside them, and that what they are tried on is what it says."""

import inspect
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest

from otspec.tolerances import MASS_TOL
from tests import laws
from tests.each import each
from tests.laws import Kind
from tests.oracles import Floats


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


Property = Callable[[Floats, Floats], bool]

KINDS: dict[str, tuple[Kind, Property]] = {
    "dirichlet": (laws.dirichlet(0.05, 30.0), lambda p, q: bool((p != q).all())),
    "model": (laws.model, lambda p, q: bool((p > 0).all() and (q > 0).all() and (p != q).all())),
    "long_tail": (laws.long_tail, lambda p, q: bool(p.max() > 10 * np.median(p))),
    "same": (laws.same(laws.model), lambda p, q: bool((p == q).all())),
    "close": (laws.close(laws.model, 3e-16), lambda p, q: bool(0 < np.abs(p / q - 1).max() < 1e-14)),
    "grid": (laws.grid(16), lambda p, q: bool((16 * p % 1 == 0).all() and p.sum() == q.sum() == 1)),
    "tied_ratios": (laws.tied_ratios, lambda p, q: np.unique((p / q).round(12)).size <= 3),
    "zeros": (laws.zeros(laws.model, 0.5), lambda p, q: bool((p == 0).any() and (q == 0).any())),
    "unreachable": (laws.unreachable, lambda p, q: bool((p > 0).all() and np.count_nonzero(q) == (q.size + 1) // 2)),
    "disjoint": (laws.disjoint(laws.model), lambda p, q: bool((p * q == 0).all())),
    "point_target": (laws.point_target(laws.model), lambda p, q: np.count_nonzero(p) == 1 == p.max()),
    "point_draft": (laws.point_draft(laws.model), lambda p, q: np.count_nonzero(q) == 1 == q.max()),
    "tail": (laws.tail(1e-300), lambda p, q: bool(0 < p.min() < 1e-200 and 0 < q.min() < 1e-200)),
    "smallest_floats": (laws.smallest_floats(laws.model), lambda p, q: bool(p.min() < 1e-249 and q.min() < 1e-249)),
    "one_likely": (laws.one_likely(laws.model), lambda p, q: bool(p.max() > 0.9)),
    "lumpy": (laws.lumpy, lambda p, q: bool(q.max() > 20 * q.min())),
    "float32": (
        laws.float32(laws.model),
        lambda p, q: bool((p == p.astype(np.float32)).all() and 1e-8 < abs(p.sum() - 1) < MASS_TOL),
    ),
}


@each(kind=KINDS)
def test_kinds_are_what_they_say(kind: tuple[Kind, Property]) -> None:
    make, says = kind
    found = [make(np.random.default_rng(seed), 40) for seed in range(50)]
    assert sum(says(p, q) for p, q in found) >= 45
