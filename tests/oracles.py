"""Slow answers that share no code with the package beyond what they ask of it.

That is `prob` and `support` of a scheme, `conditional` of a plan, and `weights` of a rule that picks.

Problems never change, and many tests ask for the optimum of the same ones: what is found for one is kept.
"""

import itertools
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

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


def enumerate_plan(plan: Plan) -> Enumeration:
    """Put the plan's conditional laws together, tuple by tuple."""
    drafts, probability = plan.problem.scheme.support()
    laws = np.array([plan.conditional(row) for row in drafts])
    drafted = np.zeros(laws.shape, dtype=bool)
    np.put_along_axis(drafted, drafts, True, axis=1)
    off = np.abs(laws.sum(axis=1) - 1).max()
    return Enumeration(probability @ laws, float(probability @ (laws * drafted).sum(axis=1)), float(laws.min()), off)
