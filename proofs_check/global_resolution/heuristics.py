"""Sections 1 and 7.1, appendices O and Q: what more drafts, a larger k, greedy drafts and K-SEQ are worth."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import brentq

from otspec.laws import FloatArray, likeliest
from otspec.problem import Problem
from otspec.proofs_check.claims import Unchecked, claim
from otspec.proofs_check.instances import covered, distinct, iid, optimum_of
from otspec.proofs_check.oracles import iid_optimum
from otspec.proofs_check.search import Descent
from otspec.proofs_check.single_draft import restricted
from otspec.schemes import Greedy
from otspec.solvers.rules.kseq import best_gamma


@claim("gr-section-7.1-drafts", iid, Descent("p q"), mutants={"Rejections fall by at least 1 %.": {"share": 0.99}})
def section_7_1_drafts(p: FloatArray, q: FloatArray, n: int, share: float = 1.0) -> float:
    """alpha* does not fall when one more i.i.d. draft is drawn. [thomas2025global, section 7.1]

    Beside: thomas2025global, section 7.1
    Remark: The paper reports it as measured; it is a theorem, as q(H)^n falls in n for every H.
    """
    return share * (1 - iid_optimum(p, q, n)) - (1 - iid_optimum(p, q, n + 1))


@claim("gr-section-7.1-k", distinct, counterexample={"p": [0.9, 0.1], "q": [0.5, 0.5], "n": 1})
def section_7_1_k(p: FloatArray, q: FloatArray, n: int) -> float:
    """alpha* does not fall when k grows in top-k sampling of the draft. [thomas2025global, section 7.1, Figure 1, read
    as a rule for every p and q]

    Beside: thomas2025global, section 7.1
    Instead: It depends on p and q. Where p is sharper than q, a small k can be best.
    Remark: The paper speaks of averages at temperature 1, and reports in Appendix Q that k = 10 is best at low
    temperatures.
    Margin: The least gain from one more token among the drafts.
    """
    optima = [iid_optimum(p, restricted(q, likeliest(q, k)), n) for k in range(1, np.count_nonzero(q) + 1)]
    return float(np.diff(optima).min(initial=0.0))


def _distinct_positive(rng: np.random.Generator) -> dict[str, Any]:
    drawn = covered(rng)
    return {**drawn, "n": int(rng.integers(2, min(drawn["p"].size, 4) + 1))}


@claim("gr-appendix-O-iid", _distinct_positive, cost=2, counterexample={"p": [1.0, 0.0], "q": [0.5, 0.5], "n": 2})
def appendix_o_iid(p: FloatArray, q: FloatArray, n: int) -> float:
    """i.i.d. drafts accept at least as often as greedy ones. [thomas2025global, Appendix O, read as a rule for every p
    and q]

    Beside: thomas2025global, Appendix O
    Instead: Neither law leads in general: see gr-appendix-O-greedy.
    Remark: The paper reports it as an average over prompts for k >= 100, and the opposite for k = 10.
    """
    return iid_optimum(p, q, n) - optimum_of(Problem(p, Greedy(q, n)))


@claim(
    "gr-appendix-O-greedy",
    _distinct_positive,
    cost=2,
    counterexample={"p": [0.0, 1.0, 0.0, 0.0], "q": [0.4, 0.2, 0.2, 0.2], "n": 2},
)
def appendix_o_greedy(p: FloatArray, q: FloatArray, n: int) -> float:
    """Greedy drafts accept at least as often as i.i.d. ones. [thomas2025global, Appendix O, k = 10, read as a rule for
    every p and q]

    Beside: thomas2025global, Appendix O
    Instead: Neither law leads in general: see gr-appendix-O-iid.
    """
    return -appendix_o_iid(p, q, n)


def _kseq(p: FloatArray, q: FloatArray, n: int) -> float:
    """Acceptance of K-SEQ: the least gamma that is lossless, and n tests that pass with probability beta each."""
    beta = float(np.minimum(q, p / best_gamma(p, q, n)).sum())
    return 1 - (1 - min(beta, 1.0)) ** n


def _promise(n: int) -> float:
    return 1 - (1 - 1 / n) ** n


def _kseq_tightness(p: FloatArray, q: FloatArray, n: int) -> float:
    accepted = _kseq(p, q, n)
    return _promise(n) * iid_optimum(p, q, n) / accepted if accepted > 1e-6 else 0.0


def _several(rng: np.random.Generator) -> dict[str, Any]:
    instance = iid(rng)
    return {**instance, "n": instance["n"] + 1}


@claim(
    "gr-section-1-kseq",
    _several,
    Descent("p q"),
    tol=1e-11,
    cost=4,
    tightness=_kseq_tightness,
    mutants={"With n - 1 in place of n.": {"fewer": 1}},
)
def section_1_kseq(p: FloatArray, q: FloatArray, n: int, fewer: int = 0) -> float:
    """K-SEQ accepts at least 1 - (1 - 1/n)^n >= 1 - 1/e of the optimum. [sun2023spectr; thomas2025global, section 1]

    Remark: At its best gamma, found to a few ulp: acceptances of nearly equal p and q are good to 1e-12 then. What is
    sharp is gr-section-1-kseq-worst.
    """
    return min(_kseq(p, q, n) - _promise(n - fewer) * iid_optimum(p, q, n), _promise(n) - (1 - np.exp(-1)))


KSEQ_LIMIT = 1 - np.exp(-1.7507867226798377)
"""What K-SEQ accepts of an optimum of 1 at least, however many drafts: (exp(y) - 1) / y = e."""


def _kseq_worst(optimum: float, n: int) -> float:
    """The least that K-SEQ accepts where alpha* is `optimum`, docs/rules.md, Theorem 8."""

    def optimum_at(w: float) -> float:
        power = sum(w**j for j in range(n)) / n
        u = power ** (1 / (n - 1))
        return 1 + (n - 1) * u**n - n * power * w

    if optimum <= optimum_at(1.0):  # that is 0, or so by rounding
        return 0.0
    return 1 - float(brentq(lambda w: optimum_at(w) - optimum, 0, 1, xtol=1e-15)) ** n


def _kseq_worst_tightness(p: FloatArray, q: FloatArray, n: int) -> float:
    accepted = _kseq(p, q, n)
    return _kseq_worst(iid_optimum(p, q, n), n) / accepted if accepted > 1e-6 else 0.0


def _kseq_of_one_draft_less(p: FloatArray, q: FloatArray, n: int) -> float:
    optimum = iid_optimum(p, q, n)
    return _kseq(p, q, n) - (_kseq_worst(optimum, n - 1) if n > 2 else optimum)


def _kseq_as_with_two(p: FloatArray, q: FloatArray, n: int) -> float:
    return _kseq(p, q, n) - 8 / 9 * iid_optimum(p, q, n)


def _near_worst(rng: np.random.Generator) -> dict[str, Any]:
    """Every other one as Theorem 8 has it: q flat, p(1..i) = max((i/V)^n - (1 - a), 0), the rest of p never drafted."""
    if rng.random() < 0.5:
        return _several(rng)
    n, size = int(rng.integers(2, 6)), int(rng.integers(3, 10))
    optimum = float(rng.choice([1.0, rng.random()]))
    below = np.maximum((np.arange(size + 1) / size) ** n - (1 - optimum), 0)
    return {"p": np.append(np.diff(below), 1 - optimum), "q": np.append(np.full(size, 1 / size), 0.0), "n": n}


@claim(
    "gr-section-1-kseq-worst",
    _near_worst,
    Descent("p q"),
    tol=1e-11,
    cost=8,
    tightness=_kseq_worst_tightness,
    mutants={"As with one draft less.": _kseq_of_one_draft_less, "8/9 for any number of drafts.": _kseq_as_with_two},
)
def section_1_kseq_worst(p: FloatArray, q: FloatArray, n: int) -> float:
    """K-SEQ accepts at least kappa(alpha*, n), at least kappa(1, n) alpha*: 8/9 of the optimum for two drafts, .8263
    for any number; no larger function of alpha* and n is a bound. [otspec, docs/rules.md, Theorem 8]

    Beside: gr-section-1-kseq
    Remark: p = (1, 3, 5) / 9, flat q and two drafts attain it: 8/9, where 1 could be had.
    """
    optimum = iid_optimum(p, q, n)
    worst, most = _kseq_worst(optimum, n), _kseq_worst(1.0, n)
    return min(_kseq(p, q, n) - worst, worst - most * optimum, most - KSEQ_LIMIT)


UNCHECKED = (
    Unchecked(
        "Acceptance rates and solve times of Figures 1 to 5 and Tables 1 to 4.",
        "thomas2025global, section 7, appendices O to R",
        "Measured on language models. The same figures on synthetic laws: docs/global_resolution.md.",
    ),
)
