"""Section 6.1 and Appendix H: what drafts serve of the tokens outside H*."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from otspec.laws import BoolArray, FloatArray, IntArray
from otspec.proofs_check.claims import Unchecked, claim
from otspec.proofs_check.global_resolution.split import (
    holds,
    iid_masses,
    least_above,
    mask_of,
    minimiser,
    outer_demands,
    rising,
    subsets,
)
from otspec.proofs_check.instances import iid, ordered, table
from otspec.proofs_check.oracles import formed, psi_of, relaxed_program


def _feasible(p: FloatArray, mass: FloatArray, share: FloatArray, room: FloatArray, of_all: bool = True) -> float:
    inside = holds(p.size)[minimiser(psi_of(p, mass))]
    outer = ~(holds(p.size) & inside).any(axis=1)  # which sets have no token of H*
    demands = np.where(inside, 0.0, share * p)
    unserved = max(0.0, float((holds(p.size) @ demands - room)[outer].max()))
    edges = holds(p.size) & ~inside & (mass > 0)[:, None]
    served = relaxed_program(demands, edges, mass).solve()[0] if edges.any() else 0.0
    supply = float(mass[~subsets(p.size)[:, mask_of(inside)]].sum())
    return -max(abs(unserved - (demands.sum() - served)), abs(room[mask_of(~inside)] - supply) if of_all else 0.0)


def _demands(rng: np.random.Generator) -> dict[str, Any]:
    instance = table(rng, largest=4)
    share = rng.random(instance["p"].size) ** rng.choice([0.1, 1.0])
    return {**instance, "share": np.where(rng.random(share.size) < 0.3, 1.0, share)}


@claim(
    "gr-theorem-6.1",
    _demands,
    tol=1e-9,  # a linear program stands behind it
    cost=60,
    counterexample={
        "p": [0.2, 0.6],
        "drafts": [[0, 0], [0, 1], [1, 0], [1, 1]],
        "law": [0.81, 0.09, 0.09, 0.01],
        "share": [1.0, 0.0],
    },
    mutants={"(9) on single tokens.": {"of_all": False}},
)
def theorem_6_1(p: FloatArray, drafts: IntArray, law: FloatArray, share: FloatArray, of_all: bool = True) -> float:
    """Amounts 0 <= p_i <= p(i) outside H* can be served by the outer system exactly if they meet (9), with equality at
    S = V without H*. [thomas2025global, Theorem 6.1]

    Assumption: p sums to 1 over the tokens of the system. Its slice along the top k (Appendix N) does not.
    Remark: Checked with numbers: the excess over (9) is what a linear program cannot serve. With a slice of p, keep
    what it leaves out as one token that is never drafted, or see gr-theorem-6.1-any-p. In the counterexample, a top 2,
    (9) requires p_2 = -0.01; drafts serve 0.19 of the second token.
    Margin: Minus the disagreement between what (9) says cannot be served, and what cannot.
    """
    mass = formed(drafts, law, p.size)
    room = holds(p.size) @ p + psi_of(p, mass)[::-1]  # psi[::-1][S] is psi(V without S)
    if not of_all:
        room = np.where(holds(p.size).sum(axis=1) > 1, np.maximum(room, 1.0), room)
    return _feasible(p, mass, share, room, of_all)


def _touching(mass: FloatArray) -> FloatArray:
    """P(some draft in S) of every set, as far as the drafts have mass, by adding up the tuples that have one."""
    masks = np.arange(mass.size)
    return ((masks[:, None] & masks) != 0) @ mass


def _sliced_demands(rng: np.random.Generator) -> dict[str, Any]:
    instance = _demands(rng)
    return {**instance, "p": instance["p"] * rng.uniform(0.5, 1.0)}


@claim(
    "gr-theorem-6.1-any-p",
    _sliced_demands,
    tol=1e-9,  # a linear program stands behind it
    cost=40,
    mutants={"(9) as printed is right for a slice of p.": theorem_6_1.margin},
)
def theorem_6_1_any_p(p: FloatArray, drafts: IntArray, law: FloatArray, share: FloatArray) -> float:
    """With P(some draft in S) on its right side, (9) is right for a slice of p too. [otspec; extends thomas2025global,
    Theorem 6.1]

    Beside: gr-theorem-6.1
    Margin: The same with P(some draft in S) on the right side of (9).
    """
    mass = formed(drafts, law, p.size)
    return _feasible(p, mass, share, _touching(mass))


@claim(
    "gr-appendix-H-polymatroid",
    table,
    cost=10,
    mutants={"The truncation is the smaller of p(S) and P(some draft in S).": {"ends": True}},
)
def appendix_h_polymatroid(p: FloatArray, drafts: IntArray, law: FloatArray, ends: bool = False) -> float:
    """The right side of (9) is P(some draft in S), and its truncation to the box p_i <= p(i) is the closed form (54).
    [thomas2025global, eq. (52), (54)]

    Margin: With the truncation's minimum over all sets, or the two at its ends.
    """
    mass = formed(drafts, law, p.size)
    psi, held, all_of_it = psi_of(p, mass), holds(p.size) @ p, (1 << p.size) - 1
    phi = held + psi[::-1]
    worst = float(np.abs(phi - _touching(mass)).max())
    for S in range(mass.size):
        T = np.array([0, S]) if ends else np.flatnonzero(subsets(p.size)[:, S])
        box = float((held[S & ~T] + phi[T]).min())
        worst = max(worst, abs(box - (held[S] + least_above(psi, all_of_it & ~S))))
    return -worst


_without_minima = partial(outer_demands, least=lambda psi, low: float(psi[low]))
"""(10) with psi itself in place of its minima."""


def _gale(
    p: FloatArray, mass: FloatArray, order: IntArray, solution: Callable[..., FloatArray] = outer_demands
) -> float:
    """How far (10) is from a solution: from 0 <= p_v <= p(v), Hall's condition and the right total."""
    psi = psi_of(p, mass)
    best = minimiser(psi)
    inside = holds(p.size)[best]
    demands = solution(p, psi, inside, order)
    room = (_touching(mass) - holds(p.size) @ demands)[~(holds(p.size) & inside).any(axis=1)]
    total = float(mass[~subsets(p.size)[:, best]].sum())
    return float(min(demands.min(), (p - demands)[~inside].min(initial=0.0), room.min(), -abs(demands.sum() - total)))


@claim(
    "gr-theorem-6.2",
    ordered,
    tol=4e-12,  # minimisers tie within 1e-12
    cost=6,
    mutants={"Differences of psi in place of its minima.": {"solution": _without_minima}},
)
def theorem_6_2(
    p: FloatArray,
    drafts: IntArray,
    law: FloatArray,
    order: IntArray,
    solution: Callable[..., FloatArray] = outer_demands,
) -> float:
    """In any order of the tokens outside H*, the differences of minima (10) solve the outer residual program.
    [thomas2025global, Theorem 6.2]

    Remark: Checked for every law of the drafts: psi is always submodular, so the theorem's hypothesis always holds.
    """
    return _gale(p, formed(drafts, law, p.size), order, solution)


def _sliced(rng: np.random.Generator) -> dict[str, Any]:
    """A slice of p, whose total is below 1, with the q of top-k."""
    instance = iid(rng)
    return {**instance, "p": instance["p"] * rng.uniform(0.5, 1.0), "order": rng.permutation(instance["p"].size)}


@claim(
    "gr-theorem-6.2-any-p",
    _sliced,
    tol=4e-12,
    mutants={"Differences of psi in place of its minima.": {"solution": _without_minima}},
)
def theorem_6_2_any_p(
    p: FloatArray, q: FloatArray, n: int, order: IntArray, solution: Callable[..., FloatArray] = outer_demands
) -> float:
    """The differences of minima (10) stay right with the slice of p along a top k, where (9) does not. [otspec; extends
    thomas2025global, Theorem 6.2]

    Beside: gr-theorem-6.2
    """
    return _gale(p, iid_masses(q, n), order, solution)


def _between_sets(rng: np.random.Generator) -> dict[str, Any]:
    instance = iid(rng)
    size = instance["p"].size
    return {**instance, "low": rng.random(size) < 0.3, "high": rng.random(size) < 0.8}


@claim("gr-lemma-6.3", _between_sets, cost=4, mutants={"By decreasing q.": {"by_draft": True}})
def lemma_6_3(p: FloatArray, q: FloatArray, n: int, low: BoolArray, high: BoolArray, by_draft: bool = False) -> float:
    """For i.i.d. drafts the least psi between A and B is at A with a prefix of B without A by decreasing q/p.
    [thomas2025global, Lemma 6.3]
    """
    psi = psi_of(p, iid_masses(q, n))
    A, B = mask_of(low & high), mask_of(high)
    masks = np.arange(psi.size)
    least = float(psi[((A & ~masks) == 0) & ((masks & ~B) == 0)].min())
    prefixes = [A]
    for x in np.argsort(-q, kind="stable") if by_draft else rising(p, q)[::-1]:
        if high[x] and not low[x]:
            prefixes.append(prefixes[-1] | 1 << int(x))
    return least - float(psi[prefixes].min())


@claim("gr-section-6.1-cumulative-minima", iid, mutants={"It is psi(H_i).": {"running": False}})
def section_6_1_cumulative_minima(p: FloatArray, q: FloatArray, n: int, running: bool = True) -> float:
    """With the tokens outside H* by increasing q/p, the least psi above H_i is the least of psi(H_1), ..., psi(H_i).
    [thomas2025global, section 6.1]
    """
    psi = psi_of(p, iid_masses(q, n))
    best = minimiser(psi)
    order = rising(p, q)
    prefixes = np.cumsum([0, *(1 << order[~holds(p.size)[best][order]][::-1])]) + best  # H_{k+1}, H_k, ..., H_1
    least = np.minimum.accumulate(psi[prefixes[::-1]])[::-1] if running else psi[prefixes]
    return -float(max(abs(least[i] - least_above(psi, int(H))) for i, H in enumerate(prefixes)))


UNCHECKED = (
    Unchecked(
        "H* and the outer residuals take O(V log V) time.",
        "thomas2025global, sections 5.1 and 6.1",
        "What the operations return is checked (gr-lemma-6.3, gr-section-6.1-cumulative-minima); a sort and cumulative "
        "minima are O(V log V) by inspection.",
    ),
    Unchecked(
        "For drafts of any law one should not expect to be faster than maximum flow.",
        "thomas2025global, section 6",
        "An expectation about all algorithms.",
    ),
)
