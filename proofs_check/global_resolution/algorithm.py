"""Algorithm 1 and section 6.3: truncation, stop rule and promise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from otspec.laws import BoolArray, FloatArray
from otspec.proofs_check.claim import Claim, Mutation, Unchecked, Verdict
from otspec.proofs_check.global_resolution.split import Split, holds, iid_masses, iid_split, minimiser
from otspec.proofs_check.instances import iid, positive_law
from otspec.proofs_check.oracles import psi_of
from otspec.proofs_check.search import Descent


def _shortest(cut: Split, q: FloatArray, n: int, tau: float, falling: bool = True) -> BoolArray:
    """T of lines 4 and 7, outside H* in the latter: on either side the shortest run by decreasing q, or increasing."""
    kept = np.zeros(q.size, dtype=bool)
    for side, members_of in enumerate((~cut.inside, cut.inside)):
        for token in np.argsort(-q if falling else q, kind="stable"):
            if cut.leaks(q, n, kept)[side] <= tau:
                break
            kept[token] |= members_of[token]
    return kept


def _smallest_sets(p: FloatArray, q: FloatArray, n: int, tau: float, falling: bool = True) -> float:
    """Size of the smallest T by trying all, less that of the shortest run; both systems."""
    cut = iid_split(p, q, n)
    kept = _shortest(cut, q, n, tau, falling)
    worst = 0
    for side, members_of in enumerate((~cut.inside, cut.inside)):
        sizes = [int(T.sum()) for T in holds(q.size) & members_of if cut.leaks(q, n, T)[side] <= tau]
        worst = min(worst, min(sizes) - int((kept & members_of).sum()))
    return float(worst)


def _with_tau(rng: np.random.Generator) -> dict[str, Any]:
    return {**iid(rng), "tau": float(10 ** rng.uniform(-4, -0.5))}


def _line_7(p: FloatArray, q: FloatArray, n: int, tau: float) -> float:
    """tau less the least epsilon_T of a T within H*."""
    inside = holds(p.size)[minimiser(psi_of(p, iid_masses(q, n)))]
    return tau - float(1.0 - q[inside].sum() ** n)


NEAR = 0.995
"""How near to the limits of its conditions a hostile instance is."""


class Promise:
    """Algorithm 1 when it stops at gradients of so many tau: the larger of its errors, in what is promised for each."""

    def __init__(self, stop: float, error: float, acceptance: float) -> None:
        self.stop, self.error, self.acceptance = stop, error, acceptance

    def tightness(self, p: FloatArray, q: FloatArray, n: int, tau: float, alpha: FloatArray) -> float:
        """0 where alpha is not yet a point to stop at."""
        cut = iid_split(p, q, n)
        if any(system.slope(alpha) > self.stop * tau for system in cut.truncated(_shortest(cut, q, n, tau))):
            return 0.0
        return max(cut.error(alpha) / self.error, cut.acceptance_error(alpha) / self.acceptance) / tau

    def margin(self, p: FloatArray, q: FloatArray, n: int, tau: float, alpha: FloatArray) -> float:
        """1 less that."""
        return 1.0 - self.tightness(p, q, n, tau, alpha)

    def with_errors(self, error: float, acceptance: float) -> Callable[..., float]:
        """The margin of other promises at the same stop."""
        return Promise(self.stop, error, acceptance).margin

    def hostile(self, rng: np.random.Generator) -> dict[str, Any]:
        """Five tokens on which all errors add up: h, e in H*, u, w, d outside; T leaves out e and d.

        alpha serves h whenever it is drafted, so h gets too much and nothing is left for the residual of w; and u
        before w, so w gets too little again.  What T drops goes to h and u.  As q(w), tau and p(e) vanish, the output
        is off by as much as can be, and as p(e) does, the acceptance.
        """
        n, stop = int(rng.integers(3, 5)), NEAR * self.stop
        q_h = rng.uniform(0.1, 0.3) ** (1 / n)
        tau = 10 ** rng.uniform(-4.5, -4) * q_h**n
        q_e = (q_h**n + NEAR * tau) ** (1 / n) - q_h
        q_d = 1 - (1 - NEAR * tau) ** (1 / n)
        q_w = rng.uniform(0.005, 0.03) * (1 - q_h - q_e - q_d)
        q = np.array([q_h, q_e, 1 - q_h - q_e - q_d - q_w, q_w, q_d])
        both = _both(q, n)
        swapped = stop / 2 * tau / both  # the share of w that u takes
        high = 14.0
        alpha = np.array([high, 0.0, high + np.log(swapped / (1 - swapped)), high, 0.0])
        p_h = q_h**n / (1 + np.exp(-high)) - stop * tau
        p_e = rng.uniform(0.001, 0.1) * tau
        p_d = NEAR * (2 - NEAR) * tau
        p_u = (1 - q_d - q_w) ** n - (q_h + q_e) ** n + (1 - NEAR) * tau
        return {
            "p": np.array([p_h, p_e, p_u, 1 - p_h - p_e - p_d - p_u, p_d]),
            "q": q,
            "n": n,
            "tau": float(tau),
            "alpha": alpha,
        }

    def draw(self, rng: np.random.Generator) -> dict[str, Any]:
        """A hostile point, or one where a minimisation stops."""
        if rng.random() < 0.5:
            return self.hostile(rng)
        size, n, tau = int(rng.integers(2, 6)), int(rng.integers(1, 4)), float(10 ** rng.uniform(-3, -1))
        p, q = positive_law(rng, size), positive_law(rng, size)
        cut = iid_split(p, q, n)
        kept = _shortest(cut, q, n, tau)
        outer, inner = (system.flat(self.stop * tau) for system in cut.truncated(kept))
        return {"p": p, "q": q, "n": n, "tau": tau, "alpha": np.where(cut.inside, inner, outer)}


def _both(q: FloatArray, n: int) -> float:
    """P(u and w are drafted, d is not) of `Promise.hostile`."""
    h, e, u, w, _ = q
    return float((h + e + u + w) ** n - (h + e + u) ** n - (h + e + w) ** n + (h + e) ** n)


AS_PRINTED = Promise(stop=5, error=15, acceptance=10)
AS_PRINTED_WIDER = Promise(stop=5, error=19, acceptance=6)
AS_MEANT = Promise(stop=2, error=15, acceptance=10)
AS_MEANT_SHARP = Promise(stop=2, error=10, acceptance=3)
REPAIRED = Promise(stop=11 / 3, error=15, acceptance=14 / 3)

_RATIO = 1e-6
"""For errors told in multiples of tau: H* ties within 1e-12."""
_READING = "Line 7 has T outside H* (gr-algorithm-1-line-7) and H* is the smallest minimiser (gr-lemma-6.6)."
_HOSTILE = "Half of the draws are from a family of laws and points on which all errors add up."


def _kept(name: str, statement: str, source: str, promise: Promise, **more: Any) -> Claim:
    """A claim that a promise holds, tried on points where it is nearly broken."""
    return Claim(
        name,
        statement,
        source,
        promise.draw,
        promise.margin,
        hypotheses=_READING,
        tol=_RATIO,
        cost=8,
        search=Descent(free=("alpha",)),
        tightness=promise.tightness,
        **more,
    )


CLAIMS = (
    Claim(
        "gr-algorithm-1-line-7",
        "Line 7: some T in H* has epsilon_T <= tau.",
        "thomas2025global, Algorithm 1, line 7",
        _with_tau,
        _line_7,
        cost=2,
        expected=Verdict.FAILS,
        counterexample={"p": np.array([0.2, 0.8]), "q": np.array([0.9, 0.1]), "n": 2, "tau": 0.01},
        remedy="T outside H*, as in Theorem 6.4: a misprint. T in H* leaves epsilon_T = 1 - q(H*)**n whatever T.",
        remark="In the counterexample H* is the first token and epsilon_T is 0.19 for every T in it.",
    ),
    Claim(
        "gr-algorithm-1-minimal",
        "The smallest T of lines 4 and 7 are runs of the tokens in H*, and outside, by decreasing q.",
        "otspec; on thomas2025global, Algorithm 1",
        _with_tau,
        _smallest_sets,
        variant_of="thomas2025global, Algorithm 1, lines 4 and 7",
        cost=14,
        mutations=(Mutation("By increasing q.", lambda **instance: _smallest_sets(**instance, falling=False)),),
    ),
    Claim(
        "gr-algorithm-1-stop",
        "Stopped at gradients of 5 tau, Algorithm 1 is within 15 tau of p and within 10 tau of the optimal acceptance.",
        "thomas2025global, Algorithm 1, lines 5 and 8; section 6.3",
        AS_PRINTED.hostile,
        AS_PRINTED.margin,
        hypotheses=_READING,
        tol=_RATIO,
        cost=20,
        tightness=AS_PRINTED.tightness,
        expected=Verdict.FAILS,
        counterexample={
            "p": np.array([0.14, 0.0, 0.25, 0.61]),
            "q": np.array([0.64, 0.01, 0.17, 0.18]),
            "n": 2,
            "tau": 0.013,
            "alpha": np.zeros(4),
        },
        remedy="Stop at 2 tau, as section 6.2 has it (eps = eps_T <= tau), or at 11/3 tau "
        "(gr-algorithm-1-stop-repaired). 5 tau is the bound on the deviation, not on the gradient. Stopped there, 19 "
        "tau is right.",
        remark="The counterexample is off by 15.99 tau = 0.208 at alpha = 0, where a minimiser starts: both gradients "
        "are below 5 tau there already. Draws are from a family made for the purpose, points that meet the stop rule "
        "and let all errors add up, which comes near 19 tau. The acceptance keeps its promise.",
    ),
    _kept(
        "gr-section-6.3-15-tau",
        "With deviations of 5 tau, from gradients of 2 tau, the output is within 15 tau of p, and the acceptance "
        "within 10 tau of its optimum.",
        "thomas2025global, section 6.3",
        AS_MEANT,
        remark=f"10 tau and 3 tau suffice, and no less: gr-section-6.3-10-tau. {_HOSTILE}",
        mutations=(
            Mutation("Within 9.3 tau.", AS_MEANT.with_errors(9.3, 10)),
            Mutation("The acceptance within 2.9 tau.", AS_MEANT.with_errors(15, 2.9)),
        ),
    ),
    _kept(
        "gr-section-6.3-10-tau",
        "From gradients of 2 tau, the output is within 10 tau of p, and the acceptance within 3 tau of its optimum.",
        "otspec; by gr-output-error and gr-acceptance-error",
        AS_MEANT_SHARP,
        variant_of="gr-section-6.3-15-tau",
        remark=_HOSTILE,
        mutations=(
            Mutation("Within 9.3 tau.", AS_MEANT_SHARP.with_errors(9.3, 3)),
            Mutation("The acceptance within 2.9 tau.", AS_MEANT_SHARP.with_errors(10, 2.9)),
        ),
    ),
    _kept(
        "gr-algorithm-1-stop-repaired",
        "Stopped at gradients of 11/3 tau, Algorithm 1 is within 15 tau of p and 14/3 tau of the optimal acceptance.",
        "otspec; repairs thomas2025global, Algorithm 1",
        REPAIRED,
        variant_of="gr-algorithm-1-stop",
        remark=_HOSTILE,
        mutations=(
            Mutation("Within 14.3 tau.", REPAIRED.with_errors(14.3, 14 / 3)),
            Mutation("The acceptance within 4.6 tau.", REPAIRED.with_errors(15, 4.6)),
        ),
    ),
    _kept(
        "gr-algorithm-1-stop-19-tau",
        "Stopped at gradients of 5 tau, as printed, Algorithm 1 is within 19 tau of p and 6 tau of the optimal "
        "acceptance.",
        "otspec; on thomas2025global, Algorithm 1",
        AS_PRINTED_WIDER,
        variant_of="gr-algorithm-1-stop",
        remark=_HOSTILE,
        mutations=(
            Mutation("Within 17.8 tau.", AS_PRINTED_WIDER.with_errors(17.8, 6)),
            Mutation("The acceptance within 5.9 tau.", AS_PRINTED_WIDER.with_errors(19, 5.9)),
        ),
    ),
)

UNCHECKED = (
    Unchecked(
        "Global resolution succeeds on so many positions, in so many milliseconds.",
        "thomas2025global, section 7, Tables 1 to 4",
        "Measurements on models that are not at hand; docs/global_resolution.md sets our own on synthetic "
        "laws beside them.",
    ),
)
