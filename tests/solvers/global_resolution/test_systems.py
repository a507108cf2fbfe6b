import itertools

import numpy as np
import pytest

from otspec import IID, Problem, optimum
from otspec.solvers.global_resolution.systems import Split, System
from tests.each import each
from tests.instances import SMALL, VARIED, Instance
from tests.oracles import Floats, Ints

DRAWN = [instance for instance in SMALL if isinstance(instance.problem.scheme, IID)]
VARIED_DRAWN = [instance for instance in VARIED if isinstance(instance.problem.scheme, IID)]


def psi(problem: Problem, tokens: tuple[int, ...]) -> float:
    """P(H) - Q(H), the function whose minimum is alpha* - 1."""
    assert isinstance(problem.scheme, IID)
    chosen = list(tokens)
    return float(problem.p[chosen].sum() - problem.scheme.q[chosen].sum() ** problem.n)


def least_psi_above(problem: Problem, tokens: tuple[int, ...]) -> float:
    """min over T containing the tokens of psi(T), over all of them."""
    others = [token for token in range(problem.vocab) if token not in tokens]
    return min(
        psi(problem, tokens + more) for size in range(len(others) + 1) for more in itertools.combinations(others, size)
    )


@each(instance=VARIED_DRAWN)
def test_outer_targets_are_the_published_differences_of_minima(instance: Instance) -> None:
    problem = instance.problem
    split = Split.of(problem)
    assert isinstance(problem.scheme, IID)
    outside = split.outer.tokens
    with np.errstate(divide="ignore"):
        rising = outside[np.argsort(problem.scheme.q[outside] / problem.p[outside])]
    above = tuple(np.flatnonzero(split.over_drafted).tolist())
    for i, token in enumerate(rising):
        after = above + tuple(rising[i + 1 :].tolist())
        printed = problem.p[token] + least_psi_above(problem, after) - least_psi_above(problem, (*after, int(token)))
        assert split.served[token] == pytest.approx(printed, abs=1e-12)


@each(instance=DRAWN)
def test_outer_targets_are_feasible_and_add_up(instance: Instance) -> None:
    problem = instance.problem
    split = Split.of(problem)
    served = split.served
    assert (served >= 0).all()
    assert (served <= problem.p).all()
    assert served.sum() == pytest.approx(optimum(problem).acceptance, abs=1e-12)
    order = np.arange(problem.vocab)
    for size in range(1, split.outer.tokens.size + 1):
        for some in itertools.combinations(split.outer.tokens.tolist(), size):  # Hall: f(A) must cover what A takes
            hit = problem.scheme.hit_chain(np.concatenate((list(some), np.setdiff1d(order, some))))[size]
            assert served[list(some)].sum() <= hit + 1e-12


def coefficients(system: System, scheme: IID, allowed: Ints) -> dict[frozenset[int], float]:
    """P(the drafts in the system form each set, and all drafts are allowed), tuple by tuple."""
    masses: dict[frozenset[int], float] = {}
    for drafts in itertools.product(allowed.tolist(), repeat=scheme.n):
        mine = frozenset(drafts) & frozenset(system.tokens.tolist())
        if mine:
            masses[mine] = masses.get(mine, 0.0) + float(scheme.prob(np.array(drafts)))
    return masses


@each(n=(1, 2, 3, 4, 5), seed=range(3))
def test_coefficients_are_sums_over_tuples(seed: int, n: int) -> None:
    p, q = np.random.default_rng(seed).dirichlet(np.ones(6), 2)
    scheme = IID(q, n)
    split = Split.of(Problem(p, scheme))
    for system, others in ((split.outer, split.inner.tokens), (split.inner, split.inner.tokens[:0])):
        for size in range(system.tokens.size + 1):
            expected = coefficients(system, scheme, np.concatenate((system.tokens[:size], others)))
            index, mass = system.sets(size)
            found = {frozenset(system.tokens[row[row >= 0]].tolist()): m for row, m in zip(index, mass, strict=True)}
            assert len(found) == len(mass) == system.set_count(size)
            for tokens, value in found.items():
                assert value == pytest.approx(expected.get(tokens, 0.0), rel=1e-12, abs=1e-300)
            assert set(expected) <= set(found)


def test_coefficients_keep_what_inclusion_and_exclusion_lose() -> None:
    q = np.array([1 - 1.111e-3, 1e-3, 1e-4, 1e-5, 1e-6])
    system = System("outer", np.arange(1, 5), q[1:], np.zeros(4), float(q[0]), 0.0, 4)
    index, mass = system.sets(4)
    last = mass[(index >= 0).all(axis=1)]
    assert last == pytest.approx([24 * 1e-18], rel=1e-12)  # 4! orders; the alternating sum gives some 1e-16


def dropped(system: System, kept: Floats) -> float:
    """Probability of the system's tuples with a draft in it that is not kept, by the definition of T."""
    whole = (system.rest + system.q.sum()) ** system.n
    return float(whole - (system.rest + kept.sum()) ** system.n)


@each(tau=(1e-1, 1e-2, 1e-4), instance=VARIED_DRAWN)
def test_truncation_is_the_least_that_drops_at_most_tau(instance: Instance, tau: float) -> None:
    split = Split.of(instance.problem)
    for system in (split.outer, split.inner):
        size, leak = system.truncate(tau)
        assert leak <= tau
        assert leak == pytest.approx(dropped(system, system.q[:size]), abs=1e-12)
        smaller: list[Floats] = [np.array(some) for some in itertools.combinations(system.q, max(size - 1, 0))]
        assert size == 0 or all(dropped(system, some) > tau - 1e-12 for some in smaller)
