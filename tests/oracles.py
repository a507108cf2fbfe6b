"""Slow answers that share no code with the package beyond what they ask of it.

That is `prob` and `support` of a scheme, `conditional` of a plan, and `weights` of a rule that picks.

Problems never change, and many tests ask for the optimum of the same ones: what is found for one is kept.
"""

import itertools
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt
from numpy.testing import assert_allclose

from otspec import DraftScheme, Plan, Problem
from otspec.plans import PickRule

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def all_tuples(scheme: DraftScheme) -> Ints:
    """All V**n ordered tuples, those that cannot occur included, shape (V**n, n)."""
    return _tuples(scheme.vocab, scheme.n)


@cache
def _tuples(vocab: int, n: int) -> Ints:
    tuples = np.array(list(itertools.product(range(vocab), repeat=n)), dtype=np.int64)
    tuples.flags.writeable = False  # for all tests
    return tuples


def hit_function(scheme: DraftScheme) -> Floats:
    """f(A) = P(some draft lies in A) for each of the 2**V subsets A, coded in binary: bit i of A stands for token i."""
    tuples = all_tuples(scheme)
    drafted = np.bitwise_or.reduce(1 << tuples, axis=1)
    subsets = np.arange(1 << scheme.vocab)
    return ((subsets[:, None] & drafted) != 0) @ scheme.prob(tuples)


def mass_function(law: Floats) -> Floats:
    """law(A) for each of the 2**V subsets A, coded as in `hit_function`."""
    subsets = np.arange(1 << law.size)
    return ((subsets[:, None] >> np.arange(law.size)) & 1) @ law


def members(subset: int, vocab: int) -> Ints:
    """The tokens of a subset coded in binary."""
    return np.array([token for token in range(vocab) if subset >> token & 1], dtype=np.int64)


@cache
def optimal_acceptance(problem: Problem) -> float:
    """alpha* = min over A of f(A) + p(V without A)."""
    outside = mass_function(problem.p)[::-1]  # the complement of A has code 2**V - 1 - A
    return float((hit_function(problem.scheme) + outside).min())


def set_masses(scheme: DraftScheme) -> dict[tuple[int, ...], float]:
    """Probability of each set of distinct drafts, by ascending tokens; sets of probability 0 are left out."""
    masses: dict[tuple[int, ...], float] = {}
    for drafts in all_tuples(scheme):
        distinct = tuple(sorted(set(drafts.tolist())))
        masses[distinct] = masses.get(distinct, 0.0) + float(scheme.prob(drafts))
    return {distinct: mass for distinct, mass in masses.items() if mass > 0}


def law_of_the_pick(scheme: DraftScheme, rule: PickRule) -> Floats:
    """Law, shape (V,), of the draft that a rule picks, tuple by tuple."""
    law = np.zeros(scheme.vocab)
    for drafts, probability in zip(*scheme.support(), strict=True):
        np.add.at(law, drafts, probability * rule.weights(drafts))
    return law


@dataclass(frozen=True)
class Enumeration:
    """What a plan does over all tuples that can occur."""

    output: Floats
    """Law of the output, shape (V,)."""
    membership: float
    """P(the output is one of the drafts)."""
    lowest: float
    """Smallest conditional probability met."""
    normalisation: float
    """Largest distance of a conditional law's total from 1."""
    undue: float
    """Largest conditional probability of a token that the target never puts out."""


def enumerate_plan(plan: Plan) -> Enumeration:
    """Put the plan's conditional laws together, tuple by tuple."""
    drafts, probability = plan.problem.scheme.support()
    laws = np.array([plan.conditional(row) for row in drafts])
    drafted = np.zeros(laws.shape, dtype=bool)
    np.put_along_axis(drafted, drafts, True, axis=1)
    off = np.abs(laws.sum(axis=1) - 1).max()
    return Enumeration(
        output=probability @ laws,
        membership=float(probability @ (laws * drafted).sum(axis=1)),
        lowest=float(laws.min()),
        normalisation=off,
        undue=float(laws[:, plan.problem.p == 0].max(initial=0.0)),
    )


def check_plan(plan: Plan, off: float = 0.0, atol: float = 1e-12) -> Enumeration:
    """What every plan owes: conditional laws that are laws of the target's tokens, and make up the output law.

    Parameters
    ----------
    plan : Plan
    off : float
        How far the output law may be from p, in absolute differences added up, beyond rounding.
    atol : float
        Rounding of sums over all tuples.
    """
    found = enumerate_plan(plan)
    assert plan.max_deviation <= off
    assert found.lowest >= 0
    assert found.normalisation <= 1e-12
    assert found.undue == 0
    assert_allclose(plan.output_law(), found.output, rtol=0, atol=atol)
    assert np.abs(found.output - plan.problem.p).sum() <= off + atol
    return found


def check_sampled(plan: Plan, total: int = 500) -> None:
    """Draws of the output follow the conditional law, after the drafts that leave the output most open."""
    laws = [(plan.conditional(drafts), drafts) for drafts in plan.problem.scheme.support().drafts]
    law, drafts = min(laws, key=lambda pair: pair[0].max())  # after most tuples one token is all but certain
    rng = np.random.default_rng(0)
    counts = np.bincount([plan.sample(drafts, rng) for _ in range(total)], minlength=law.size)
    # Binomial standard deviations, token by token: a law may have cells too small for chi-square.  The seed is fixed; a
    # right sampler stays within 5 of them, and never puts out what has probability 0.
    assert (abs(counts - total * law) <= 5 * np.sqrt(total * law * (1 - law)) + 1e-6).all()
