"""The two systems of global resolution, their coefficients, and the convex problem that each of them is."""

import itertools

import numpy as np
import pytest

from otspec import IID, DraftScheme, Independent, Problem, WithoutReplacement
from otspec.schemes.protocol import Support
from otspec.solvers import GlobalResolution
from otspec.solvers.global_resolution.coefficients import Taken
from otspec.solvers.global_resolution.softmax import REACH, minimise, value_and_rows
from otspec.solvers.global_resolution.systems import Split, System
from tests.each import each
from tests.instances import SMALL, VARIED, Instance
from tests.oracles import Floats, Ints, hit_function, mass_function

DRAWN = [instance for instance in SMALL if GlobalResolution().supports(instance.problem) is None]
VARIED_DRAWN = [instance for instance in VARIED if instance in DRAWN]
IN_ORDER = [instance for instance in VARIED_DRAWN if not isinstance(instance.problem.scheme, Independent)]


def within(scheme: DraftScheme) -> Floats:
    """P(all drafts lie in A) for each set A of tokens, coded in binary."""
    return 1.0 - hit_function(scheme)[::-1]


def code(tokens: Ints) -> int:
    return int((1 << tokens).sum())


@each(instance=IN_ORDER)
def test_outer_targets_are_the_published_differences_of_minima(instance: Instance) -> None:
    problem = instance.problem
    split = Split.of(problem)
    psi = mass_function(problem.p) - within(problem.scheme)
    sets = np.arange(psi.size)
    outside = split.outer.tokens
    order = problem.scheme.prefix_order(problem.p)
    assert order is not None
    above = code(np.flatnonzero(split.over_drafted))
    for token in order[np.isin(order, outside)][::-1]:  # falling q/p
        below = above
        above |= 1 << int(token)
        least = [psi[sets & some == some].min() for some in (below, above)]
        assert split.served[token] == pytest.approx(problem.p[token] + least[0] - least[1], abs=1e-12)


def coefficients(system: System, tuples: Support, allowed: Ints) -> dict[int, float]:
    """P(the drafts in the system form each set, in binary code, and all drafts are allowed), tuple by tuple."""
    drafts, chances = tuples
    inside = np.isin(np.arange(system.scheme.vocab), system.tokens).astype(np.int64) << np.arange(system.scheme.vocab)
    codes = np.bitwise_or.reduce(inside[drafts], axis=1)
    counted = np.isin(drafts, allowed).all(axis=1) & (codes > 0)
    sums = np.bincount(codes[counted], weights=chances[counted])
    return {int(one): float(sums[one]) for one in np.unique(codes[counted])}


def check_coefficients(system: System, size: int, tuples: Support) -> None:
    """Those of the first tokens, to the last digits of each."""
    expected = coefficients(system, tuples, np.concatenate((system.tokens[:size], system.rest)))
    index, mass = system.sets(size)
    found = {code(system.tokens[row[row >= 0]]): m for row, m in zip(index, mass, strict=True)}
    assert len(found) == len(mass) == system.set_count(size)
    for tokens, value in found.items():
        assert value == pytest.approx(expected.get(tokens, 0.0), rel=1e-12, abs=1e-300)
    assert set(expected) <= set(found)


def schemes(rng: np.random.Generator, n: int) -> list[Taken]:
    """A draft law of each kind."""
    q = rng.dirichlet(np.full(6, rng.choice([0.1, 1.0])))
    q = np.where(q > 0, q, 1e-300)
    every: list[Taken] = [IID(q, n), WithoutReplacement(q, n)]
    return [*every, Independent([q, *rng.dirichlet(np.ones(6), n - 1)])] if n <= 2 else every


@each(n=(1, 2, 3, 4, 5), seed=range(5))
def test_coefficients_are_sums_over_tuples(seed: int, n: int) -> None:
    rng = np.random.default_rng((seed, n))
    for scheme in schemes(rng, n):
        split, tuples = Split.of(Problem(rng.dirichlet(np.ones(6)), scheme)), scheme.support()
        for system in (split.outer, split.inner):
            for size in range(system.tokens.size + 1):
                check_coefficients(system, size, tuples)


@each(scheme=(IID, WithoutReplacement))
def test_coefficients_keep_what_inclusion_and_exclusion_lose(scheme: type[IID | WithoutReplacement]) -> None:
    q = np.array([1 - 1.111e-3, 1e-3, 1e-4, 1e-5, 1e-6])
    rare = System("outer", scheme(q, 4), np.arange(1, 5), np.arange(1), np.zeros(4), np.zeros(5), 0.0)
    check_coefficients(rare, 4, rare.scheme.support())
    index, mass = rare.sets(4)
    assert 0 < mass[(index >= 0).all(axis=1)].sum() < 1e-15  # the alternating sum gives some 1e-16
    likely = System("outer", scheme(q, 4), np.arange(5), np.arange(0), np.zeros(5), np.zeros(6), 0.0)
    check_coefficients(likely, 5, likely.scheme.support())


def dropped(system: System, within: Floats, kept: Ints) -> float:
    """Probability of the system's tuples with a draft in it that is not kept, by the definition of T."""
    inside, rest = code(system.tokens), code(system.rest)
    return float(within[inside | rest] - within[code(kept) | rest])


@each(tau=(1e-1, 1e-2, 1e-4), instance=VARIED_DRAWN)
def test_truncation_is_the_least_that_drops_at_most_tau(instance: Instance, tau: float) -> None:
    split, every = Split.of(instance.problem), within(instance.problem.scheme)
    for system in (split.outer, split.inner):
        size, leak = system.truncate(tau)
        assert leak <= tau
        assert leak == pytest.approx(dropped(system, every, system.tokens[:size]), abs=1e-12)
        if isinstance(system.scheme, Independent):  # the least sets of two laws need not lie in each other
            continue
        for some in itertools.combinations(system.tokens.tolist(), max(size - 1, 0)):
            assert size == 0 or dropped(system, every, np.array(some, dtype=np.int64)) > tau - 1e-12


def test_of_two_laws_the_tokens_of_likely_tuples_come_first() -> None:
    # H* is {0, 1, 2}, and its tuples are (0, 2) and (1, 2): all hold token 2, which is drafted least.
    first, second = [0.5, 0.4, 0.0, 0.1], [0.0, 0.0, 0.2, 0.8]
    split = Split.of(Problem([0.05, 0.04, 0.03, 0.88], Independent([first, second])))
    assert split.inner.tokens.tolist() == [2, 0, 1]


@each(n=(2, 3), seed=range(5))
def test_minimum_meets_its_slope_or_its_iterations(seed: int, n: int) -> None:
    p, q = np.random.default_rng(seed).dirichlet(np.ones(12), 2)
    split = Split.of(Problem(p, IID(q, n)))
    for system in (split.outer, split.inner):
        size = system.tokens.size
        index, mass = system.sets(size)
        found = minimise(index, mass, system.slack, system.targets, 1e-3, 1000)
        rows = value_and_rows(index, mass, system.slack, found.alpha)[1]
        assert found.slope <= 1e-3
        assert np.abs(rows - system.targets).sum() == pytest.approx(found.slope, abs=1e-15)
        short = minimise(index, mass, system.slack, system.targets, 1e-300, 2)
        assert short.iterations <= 2
        assert short.slope > 1e-300 or size <= 1


def test_variables_that_run_off_stay_in_reach() -> None:
    # The one token wants more than its tuples hold: the infimum is at infinity.
    found = minimise(np.array([[0]]), np.array([0.5]), 1.0, np.array([0.5]), 0.0, 10_000)
    assert np.abs(found.alpha).max() <= REACH
    assert found.slope < 1e-6
    assert np.isfinite(value_and_rows(np.array([[0]]), np.array([0.5]), 1.0, np.array([1e25]))[0])
