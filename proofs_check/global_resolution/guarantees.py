"""Lemma 6.6 and what is left of an error on the way from the two systems to the output."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from otspec.laws import BoolArray, FloatArray, IntArray
from otspec.problem import Problem
from otspec.proofs_check.claims import claim, inequality
from otspec.proofs_check.global_resolution.convex import TINY, point, truncated_point
from otspec.proofs_check.global_resolution.split import Split, iid_split, once_exact
from otspec.proofs_check.instances import positive_law
from otspec.proofs_check.search import Descent
from otspec.schemes import IID
from otspec.solvers import GlobalResolution
from otspec.solvers.global_resolution.plan import Resolution

FLOOR = 1e-290
"""Tuples less probable than this are floats of few digits."""


def _drafted(rng: np.random.Generator) -> dict[str, Any]:
    """A tuple of drafts, its probability above 0, and other variables for the system that it does not need."""
    size, n = int(rng.integers(2, 6)), int(rng.integers(1, 4))
    p, q = positive_law(rng, size), positive_law(rng, size)
    tau, other = float(10 ** rng.uniform(-3, -1)), rng.normal(scale=3.0, size=size)
    return {"p": p, "q": q, "n": n, "tau": tau, "drafts": rng.integers(0, size, n), "other": other}


@claim("gr-algorithm-1-slice", _drafted, tol=1e-9, cost=40, mutants={"Either of them is.": {"needed": False}})
def algorithm_1_slice(
    p: FloatArray, q: FloatArray, n: int, tau: float, drafts: IntArray, other: FloatArray, needed: bool = True
) -> float:
    """For the drafted tuple one of the two systems is enough: it gives the normalised C of (18). [thomas2025global, eq.
    (18), section 5.3 and Algorithm 1]

    Remark: What the solver `global_resolution` answers for one tuple, against that tuple's row of C, with random
    variables in the other system. That C gives every tuple a law is part of gr-lemma-6.6.
    Margin: What `global_resolution` answers for one tuple, against its row of C (18) with noise for the other system.
    """
    solver = GlobalResolution(tau=tau, max_tokens=p.size, max_iterations=1000)
    problem = Problem(p, IID(q, n))
    law, plan = solver.conditional(problem, drafts), solver(problem).plan
    assert isinstance(plan, Resolution)
    cut = iid_split(p, q, n)
    solved = plan.inner if cut.inside[drafts].all() else plan.outer
    alpha = other.copy()
    if needed:
        alpha[solved.system.tokens] = solved.alpha
    columns, supplies = cut.columns(alpha)
    row = cut.row_of(drafts)
    return -float(np.abs(law - columns[row] / supplies[row]).max())


def _either_minimiser(rng: np.random.Generator) -> dict[str, Any]:
    """H* is the largest minimiser of psi half of the times when psi(H*) is below 0, else the smallest."""
    instance = point(rng)
    cut = iid_split(instance["p"], instance["q"], instance["n"])
    return {**instance, "largest": cut.psi < -TINY and rng.random() < 0.5}


def _lemma(p: FloatArray, q: FloatArray, n: int, alpha: FloatArray, largest: bool, inner: float = 2.0) -> float:
    """Error of the output in its bound."""
    cut = iid_split(p, q, n, largest)
    return cut.error(alpha) / max(cut.outer.slope(alpha) + inner * cut.inner.slope(alpha), TINY)


_RATIO = 1e-5
"""For errors in units of their bounds: H* ties within 1e-12, and bounds count as 1e-6 or more."""


@claim(
    "gr-lemma-6.6",
    _either_minimiser,
    Descent(free="alpha"),
    tol=_RATIO,
    cost=15,
    tightness=_lemma,
    counterexample={"p": [0.5, 0.5], "q": [0.5, 0.5], "n": 2, "alpha": [0.0, 0.0], "largest": True},
    mutants={"Within a + 1.8 b.": lambda **instance: 1.0 - _lemma(**instance, inner=1.8)},
)
def lemma_6_6(p: FloatArray, q: FloatArray, n: int, alpha: FloatArray, largest: bool) -> float:
    """Outer and inner solutions that deviate by a and b give, by (18), every tuple a law, and an output within a + 2b
    of p. [thomas2025global, Lemma 6.6]

    Assumption: psi(H*) < 0 or H* is empty; the proof divides by psi(H*). The smallest minimiser is always so.
    Remark: In the counterexample all of V minimises psi as well as the empty set does. With H* = V the residual of (18)
    is 0/0: 5/12 of the drafts have nowhere to go. With H* empty the same problem is solved exactly.
    Margin: Also of the claim that C gives every tuple its probability, and all of it to tokens: that it is a law.
    """
    columns, supplies = iid_split(p, q, n, largest).columns(alpha)
    laws = columns[supplies > FLOOR] / supplies[supplies > FLOOR, None]
    error = float(max(-laws.min(), np.abs(laws.sum(axis=1) - 1.0).max()))
    return once_exact(error, 1.0 - _lemma(p, q, n, alpha, largest))


@claim(
    "gr-lemma-6.6-acceptance",
    _either_minimiser,
    tol=4e-12,  # minimisers tie within 1e-12
    cost=9,
    mutants={"Within a.": {"inner": 0.0}},
)
def lemma_6_6_acceptance(
    p: FloatArray, q: FloatArray, n: int, alpha: FloatArray, largest: bool, inner: float = 1.0
) -> float:
    """Outer and inner solutions that deviate by a and b accept within a + b of the optimum. [thomas2025global, Lemma
    6.6]

    Remark: b alone suffices: gr-lemma-6.6-acceptance-b.
    """
    cut = iid_split(p, q, n, largest)
    return cut.outer.slope(alpha) + inner * cut.inner.slope(alpha) - cut.acceptance_error(alpha)


@inequality(
    "gr-lemma-6.6-acceptance-b",
    _either_minimiser,
    Descent(free="alpha"),
    least=TINY,
    in_ratio=True,
    tol=_RATIO,
    cost=12,
    mutants={"Within 0.95 b.": {"ratio": 0.95}},
)
def lemma_6_6_acceptance_b(
    p: FloatArray, q: FloatArray, n: int, alpha: FloatArray, largest: bool
) -> tuple[float, float]:
    """The acceptance is within b of the optimum, whatever a. [otspec; sharpens thomas2025global, Lemma 6.6]

    Beside: gr-lemma-6.6-acceptance
    Remark: The outer softmax spends its tuples exactly, so its rows add up to the sum of the p_i.
    Margin: Error of the acceptance, and b.
    """
    cut = iid_split(p, q, n, largest)
    return cut.acceptance_error(alpha), cut.inner.slope(alpha)


OUTPUT = np.array([1.0, 2.0, 2.0, 2.0])


def _parts(p: FloatArray, q: FloatArray, n: int, alpha: FloatArray, keep: BoolArray) -> tuple[Split, FloatArray]:
    """The problem cut along H*, and s, t, eps_T and gamma_T."""
    cut = iid_split(p, q, n)
    return cut, np.array([*(system.slope(alpha) for system in cut.truncated(keep)), *cut.leaks(q, n, keep)])


def _sharpened(
    error: Callable[[Split, FloatArray], float], counts: FloatArray, term: int, share: float = 0.9
) -> Callable[..., float]:
    """Margin where one term of a bound counts so many times what it does, in units of that term."""

    def margin(p: FloatArray, q: FloatArray, n: int, alpha: FloatArray, keep: BoolArray) -> float:
        cut, parts = _parts(p, q, n, alpha, keep)
        others = float(np.delete(counts, term) @ np.delete(parts, term))
        return float(share * counts[term] - (error(cut, alpha) - others) / max(parts[term], TINY))

    return margin


@inequality(
    "gr-output-error",
    truncated_point,
    Descent("p q", free="alpha", sets="keep", counts="n"),
    least=TINY,
    in_ratio=True,
    tol=_RATIO,
    mutants={
        "0.9 times as much of s.": _sharpened(Split.error, OUTPUT, 0, 0.9),
        "0.9 times as much of t.": _sharpened(Split.error, OUTPUT, 1, 0.9),
        "0.7 times as much of eps_T.": _sharpened(Split.error, OUTPUT, 2, 0.7),
        "0.9 times as much of gamma_T.": _sharpened(Split.error, OUTPUT, 3, 0.9),
    },
)
def output_error(p: FloatArray, q: FloatArray, n: int, alpha: FloatArray, keep: BoolArray) -> tuple[float, float]:
    """With outer and inner gradients s and t the output is within s + 2t + 2 eps_T + 2 gamma_T of p. [otspec; sharpens
    thomas2025global, Theorems 6.4 and 6.5 with Lemma 6.6]

    Beside: gr-lemma-6.6
    Remark: The theorems and the lemma have s + 2t + 3 eps_T + 6 gamma_T. What the inner rows miss, and what their sum
    misses, count once each. Let the dropped inner tuples bring l to tokens of T, and r to others, which are owed P; l +
    r and P are at most gamma_T. The first is at most t + l + |r - P|, the second |g + l + r - P| with |g| <= t.
    Whatever the sign, both together are at most 2t + 2 gamma_T.
    Margin: Error of the output, and its bound.
    """
    cut, parts = _parts(p, q, n, alpha, keep)
    return cut.error(alpha), float(OUTPUT @ parts)


ACCEPTANCE = np.array([0.0, 1.0, 0.0, 1.0])
"""How often s, t, eps_T and gamma_T count in the bounds."""


@inequality(
    "gr-acceptance-error",
    truncated_point,
    Descent("p q", free="alpha", sets="keep", counts="n"),
    least=TINY,
    in_ratio=True,
    tol=_RATIO,
    cost=5,
    mutants={
        "0.9 times as much of t.": _sharpened(Split.acceptance_error, ACCEPTANCE, 1),
        "0.9 times as much of gamma_T.": _sharpened(Split.acceptance_error, ACCEPTANCE, 3),
    },
)
def acceptance_error(p: FloatArray, q: FloatArray, n: int, alpha: FloatArray, keep: BoolArray) -> tuple[float, float]:
    """With an inner gradient t the acceptance is within t + gamma_T of its optimum. [otspec; sharpens thomas2025global,
    Theorem 6.5 with Lemma 6.6]

    Beside: gr-lemma-6.6-acceptance
    Remark: See gr-output-error: it is |g + l + r - P|.
    Margin: Error of the acceptance, and its bound.
    """
    cut, parts = _parts(p, q, n, alpha, keep)
    return cut.acceptance_error(alpha), float(ACCEPTANCE @ parts)
