"""Algorithm 1 and section 6.3: truncation, stop rule and promise."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from otspec.laws import BoolArray, FloatArray
from otspec.proofs_check.claims import Claim, Unchecked, claim, inequality
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


def _with_tau(rng: np.random.Generator) -> dict[str, Any]:
    return {**iid(rng), "tau": float(10 ** rng.uniform(-4, -0.5))}


@claim(
    "gr-algorithm-1-line-7", _with_tau, cost=2, counterexample={"p": [0.2, 0.8], "q": [0.9, 0.1], "n": 2, "tau": 0.01}
)
def algorithm_1_line_7(p: FloatArray, q: FloatArray, n: int, tau: float) -> float:
    """Line 7: some T in H* has epsilon_T <= tau. [thomas2025global, Algorithm 1, line 7]

    Instead: T outside H*, as in Theorem 6.4: a misprint. T in H* leaves epsilon_T = 1 - q(H*)**n whatever T.
    Remark: In the counterexample H* is the first token and epsilon_T is 0.19 for every T in it.
    Margin: tau less the least epsilon_T of a T within H*.
    """
    inside = holds(p.size)[minimiser(psi_of(p, iid_masses(q, n)))]
    return tau - float(1.0 - q[inside].sum() ** n)


@claim("gr-algorithm-1-minimal", _with_tau, cost=14, mutants={"By increasing q.": {"falling": False}})
def algorithm_1_minimal(p: FloatArray, q: FloatArray, n: int, tau: float, falling: bool = True) -> float:
    """The smallest T of lines 4 and 7 are runs of the tokens in H*, and outside, by decreasing q. [otspec; on
    thomas2025global, Algorithm 1]

    Beside: thomas2025global, Algorithm 1, lines 4 and 7
    Margin: Size of the smallest T by trying all, less that of the shortest run; both systems.
    """
    cut = iid_split(p, q, n)
    kept = _shortest(cut, q, n, tau, falling)
    worst = 0
    for side, members_of in enumerate((~cut.inside, cut.inside)):
        sizes = [int(T.sum()) for T in holds(q.size) & members_of if cut.leaks(q, n, T)[side] <= tau]
        worst = min(worst, min(sizes) - int((kept & members_of).sum()))
    return float(worst)


NEAR = 0.995
"""How near to the limits of its conditions a hostile instance is."""


def hostile(rng: np.random.Generator, stop: float) -> dict[str, Any]:
    """Five tokens on which all errors add up: h, e in H*, u, w, d outside; T leaves out e and d.

    alpha serves h whenever it is drafted, so h gets too much and nothing is left for the residual of w; and u
    before w, so w gets too little again.  What T drops goes to h and u.  As q(w), tau and p(e) vanish, the output
    is off by as much as can be, and as p(e) does, the acceptance.
    """
    n, stop = int(rng.integers(3, 5)), NEAR * stop
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


def _both(q: FloatArray, n: int) -> float:
    """P(u and w are drafted, d is not) of `hostile`."""
    h, e, u, w, _ = q
    return float((h + e + u + w) ** n - (h + e + u) ** n - (h + e + w) ** n + (h + e) ** n)


def _stopped(rng: np.random.Generator, stop: float) -> dict[str, Any]:
    """A hostile point, or one where a minimisation stops."""
    if rng.random() < 0.5:
        return hostile(rng, stop)
    size, n, tau = int(rng.integers(2, 6)), int(rng.integers(1, 4)), float(10 ** rng.uniform(-3, -1))
    p, q = positive_law(rng, size), positive_law(rng, size)
    cut = iid_split(p, q, n)
    kept = _shortest(cut, q, n, tau)
    outer, inner = (system.flat(stop * tau) for system in cut.truncated(kept))
    return {"p": p, "q": q, "n": n, "tau": tau, "alpha": np.where(cut.inside, inner, outer)}


def worst(
    stop: float, error: float, acceptance: float, p: FloatArray, q: FloatArray, n: int, tau: float, alpha: FloatArray
) -> float:
    """The larger error of Algorithm 1, stopped at gradients of so many tau, in what is promised for each, in tau.

    It is 0 where alpha is not yet a point to stop at.
    """
    cut = iid_split(p, q, n)
    if any(system.slope(alpha) > stop * tau for system in cut.truncated(_shortest(cut, q, n, tau))):
        return 0.0
    return max(cut.error(alpha) / error, cut.acceptance_error(alpha) / acceptance) / tau


_RATIO = 1e-6
"""For errors in multiples of tau: H* ties within 1e-12."""


@inequality(
    "gr-algorithm-1-stop",
    partial(hostile, stop=5),
    in_ratio=True,
    tol=_RATIO,
    cost=20,
    counterexample={
        "p": [0.14, 0.0, 0.25, 0.61],
        "q": [0.64, 0.01, 0.17, 0.18],
        "n": 2,
        "tau": 0.013,
        "alpha": np.zeros(4),
    },
)
def algorithm_1_stop(**point: Any) -> tuple[float, float]:
    """Stopped at gradients of 5 tau, Algorithm 1 is within 15 tau of p and within 10 tau of the optimal acceptance.
    [thomas2025global, Algorithm 1, lines 5 and 8; section 6.3]

    Hypotheses: Line 7 has T outside H* (gr-algorithm-1-line-7) and H* is the smallest minimiser (gr-lemma-6.6).
    Instead: Stop at 2 tau, as section 6.2 has it (eps = eps_T <= tau), or at 11/3 tau (gr-algorithm-1-stop-repaired).
    5 tau is the bound on the deviation, not on the gradient. Stopped there, 19 tau is right.
    Remark: The counterexample is off by 15.99 tau = 0.208 at alpha = 0, where a minimiser starts: both gradients are
    below 5 tau there already. Draws are from a family made for the purpose, points that meet the stop rule and let all
    errors add up, which comes near 19 tau. The acceptance keeps its promise.
    """
    return worst(5, 15, 10, **point), 1.0


def _kept(id: str, stop: float, **parts: Any) -> Callable[[Callable[..., tuple[float, float]]], Claim]:  # noqa: A002
    """A claim of what is promised at a stop, tried on points where it is nearly broken."""
    draw, search = partial(_stopped, stop=stop), Descent(free="alpha")
    return inequality(id, draw, search, in_ratio=True, tol=_RATIO, cost=8, **parts)


@_kept(
    "gr-section-6.3-15-tau",
    stop=2,
    mutants={"Within 9.3 tau.": {"error": 9.3}, "The acceptance within 2.9 tau.": {"acceptance": 2.9}},
)
def section_6_3_15_tau(error: float = 15, acceptance: float = 10, **point: Any) -> tuple[float, float]:
    """With deviations of 5 tau, from gradients of 2 tau, the output is within 15 tau of p, and the acceptance within 10
    tau of its optimum. [thomas2025global, section 6.3]

    Hypotheses: Line 7 has T outside H* (gr-algorithm-1-line-7) and H* is the smallest minimiser (gr-lemma-6.6).
    Remark: 10 tau and 3 tau suffice, and no less: gr-section-6.3-10-tau. Half of the draws are from a family of laws
    and points on which all errors add up.
    """
    return worst(2, error, acceptance, **point), 1.0


@_kept(
    "gr-section-6.3-10-tau",
    stop=2,
    mutants={"Within 9.3 tau.": {"error": 9.3}, "The acceptance within 2.9 tau.": {"acceptance": 2.9}},
)
def section_6_3_10_tau(error: float = 10, acceptance: float = 3, **point: Any) -> tuple[float, float]:
    """From gradients of 2 tau, the output is within 10 tau of p, and the acceptance within 3 tau of its optimum.
    [otspec; by gr-output-error and gr-acceptance-error]

    Beside: gr-section-6.3-15-tau
    Hypotheses: Line 7 has T outside H* (gr-algorithm-1-line-7) and H* is the smallest minimiser (gr-lemma-6.6).
    Remark: Half of the draws are from a family of laws and points on which all errors add up.
    """
    return worst(2, error, acceptance, **point), 1.0


@_kept(
    "gr-algorithm-1-stop-repaired",
    stop=11 / 3,
    mutants={"Within 14.3 tau.": {"error": 14.3}, "The acceptance within 4.6 tau.": {"acceptance": 4.6}},
)
def algorithm_1_stop_repaired(error: float = 15, acceptance: float = 14 / 3, **point: Any) -> tuple[float, float]:
    """Stopped at gradients of 11/3 tau, Algorithm 1 is within 15 tau of p and 14/3 tau of the optimal acceptance.
    [otspec; repairs thomas2025global, Algorithm 1]

    Beside: gr-algorithm-1-stop
    Hypotheses: Line 7 has T outside H* (gr-algorithm-1-line-7) and H* is the smallest minimiser (gr-lemma-6.6).
    Remark: Half of the draws are from a family of laws and points on which all errors add up.
    """
    return worst(11 / 3, error, acceptance, **point), 1.0


@_kept(
    "gr-algorithm-1-stop-19-tau",
    stop=5,
    mutants={"Within 17.8 tau.": {"error": 17.8}, "The acceptance within 5.9 tau.": {"acceptance": 5.9}},
)
def algorithm_1_stop_19_tau(error: float = 19, acceptance: float = 6, **point: Any) -> tuple[float, float]:
    """Stopped at gradients of 5 tau, as printed, Algorithm 1 is within 19 tau of p and 6 tau of the optimal acceptance.
    [otspec; on thomas2025global, Algorithm 1]

    Beside: gr-algorithm-1-stop
    Hypotheses: Line 7 has T outside H* (gr-algorithm-1-line-7) and H* is the smallest minimiser (gr-lemma-6.6).
    Remark: Half of the draws are from a family of laws and points on which all errors add up.
    """
    return worst(5, error, acceptance, **point), 1.0


UNCHECKED = (
    Unchecked(
        "Global resolution succeeds on so many positions, in so many milliseconds.",
        "thomas2025global, section 7, Tables 1 to 4",
        "Measurements on models that are not at hand; docs/global_resolution.md sets our own on synthetic "
        "laws beside them.",
    ),
)
