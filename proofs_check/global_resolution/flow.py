"""Sections 4, 5.2 and 5.3, appendices B, E, F and G: canonical decomposition, maximum flow, complementary slackness."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order

from otspec.laws import BoolArray, FloatArray, IntArray
from otspec.proofs_check.claims import Unchecked, claim
from otspec.proofs_check.instances import rejecting, table
from otspec.proofs_check.oracles import LP_TOL, Program, members, psi, sums, token_sets, transport

TIE = 1e-13
"""Token sets whose psi is within this of the least all count as minimisers."""


def _optimal(rng: np.random.Generator) -> dict[str, Any]:
    """A problem with one of its optimal S*: the mean of two maximum flows, found with the tokens in two orders."""
    instance = table(rng)
    size = instance["p"].size
    return {**instance, "orders": np.array([rng.permutation(size) for _ in range(2)]), "share": float(rng.random())}


def _solution(p: FloatArray, member: BoolArray, law: FloatArray, orders: IntArray, share: float) -> FloatArray:
    first, second = (transport(p, member, law, order) for order in orders)
    return share * first + (1 - share) * second


def _weights(served: FloatArray, member: BoolArray) -> FloatArray:
    """The beta of eq. (5)."""
    totals = served.sum(axis=1, keepdims=True)
    uniform = member / member.sum(axis=1, keepdims=True)
    return np.divide(served, totals, out=uniform, where=totals > 0)


def _accepted(p: FloatArray, law: FloatArray, weights: FloatArray) -> float:
    """The objective of eq. (19)."""
    return float(np.minimum(p, law @ weights).sum())


@claim("gr-theorem-4.1", _optimal, cost=10, mutants={"Every tuple uniform.": {"uniform": True}})
def theorem_4_1(
    p: FloatArray, drafts: IntArray, law: FloatArray, orders: IntArray, share: float, uniform: bool = False
) -> float:
    """An optimal S*, normalised per tuple and uniform where it is 0, solves the importance-sampling problem (19).
    [thomas2025global, Theorem 4.1, eq. (5)]

    Hypotheses: Any law of the n drafts; tuples of probability 0 count as tuples on which S* is 0.
    Remark: S* is a mixture of two maximum flows, found with the tokens in different orders.
    """
    member = members(drafts, p.size)
    served = np.zeros(member.shape) if uniform else _solution(p, member, law, orders, share)
    weights = _weights(served, member)
    off = float(np.abs(weights.sum(axis=1) - 1).max() + np.abs(weights[~member]).sum())
    return -max(off, abs(_accepted(p, law, weights) - (1 + psi(p, drafts, law).min())))


def _feasible(rng: np.random.Generator) -> dict[str, Any]:
    instance = table(rng)
    return {**instance, "sums": rng.random((len(instance["law"]), instance["p"].size))}


@claim("gr-theorem-4.1-any", _feasible, cost=3, mutants={"At least 1.01 sum S.": {"times": 1.01}})
def theorem_4_1_any(p: FloatArray, drafts: IntArray, law: FloatArray, sums: FloatArray, times: float = 1.0) -> float:
    """Any feasible S, normalised like this, accepts at least sum S. [otspec; the proof of thomas2025global, Theorem
    4.1, shows it]

    Beside: gr-theorem-4.1
    Remark: Stronger than the theorem: a solver that stops early keeps what it has, and the pick stays lossless.
    """
    member = members(drafts, p.size)
    served = np.where(member, sums, 0.0)
    for capacity, axis in ((p, 0), (law, 1)):
        load = served.sum(axis=axis)
        factor = np.divide(capacity, load, out=np.ones_like(load), where=load > capacity)
        served = served * (factor if axis == 0 else factor[:, None])
    return _accepted(p, law, _weights(served, member)) - times * float(served.sum())


def _beta_program(p: FloatArray, member: BoolArray, law: FloatArray) -> Program:
    """Eq. (19) in the variables beta times the tuple's probability, and t_i for the minimum of each token."""
    by_token, by_tuple = sums(member)
    cells, size = by_token.shape[1], p.size
    below_pick = np.hstack((-by_token, np.eye(size)))
    below_p = np.hstack((np.zeros((size, cells)), np.eye(size)))
    at_most = np.concatenate((below_pick, below_p)), np.concatenate((np.zeros(size), p))
    equal = np.hstack((by_tuple, np.zeros((len(member), size)))), law
    return Program(np.append(np.zeros(cells), np.ones(size)), at_most, equal)


@claim("gr-theorem-B.1", table, tol=LP_TOL, cost=20, mutants={"1 + min psi over H of at most one token.": {"most": 1}})
def theorem_b_1(p: FloatArray, drafts: IntArray, law: FloatArray, most: int | None = None) -> float:
    """The importance-sampling problem (19) has the optimal value alpha*. [khisti2025multi; thomas2025global, Theorem
    B.1]
    """
    value, _ = _beta_program(p, members(drafts, p.size), law).solve()
    sets = token_sets(p.size).sum(axis=1) <= (p.size if most is None else most)
    return -abs(value - (1 + psi(p, drafts, law)[sets].min()))


@claim(
    "gr-appendix-B-not-an-LP",
    lambda rng: table(rng, largest=3, most=2),
    tol=0.0,
    cost=10,
    counterexample={"p": [0.5, 0.5], "drafts": [[0], [1]], "law": [0.8, 0.2]},
)
def appendix_b_not_an_lp(p: FloatArray, drafts: IntArray, law: FloatArray) -> float:
    """The problem (19) is not an LP [read: no LP of about its size has its solutions]. [thomas2025global, Appendix B]

    Beside: thomas2025global, Appendix B
    Instead: Maximise the sum of t_i <= p(i), t_i <= sum over tuples of beta pdraft: an LP with V more variables.
    Remark: As written (19) has minima in its objective, so it is no LP in the letter. It is as large as the relaxed
    program either way, which is the point that the paper makes.
    """
    member = members(drafts, p.size)
    _, solution = _beta_program(p, member, law).solve()
    picked = np.zeros(member.shape)
    picked[member] = solution[: int(member.sum())]
    return abs(_accepted(p, law, _weights(picked, member)) - (1 + psi(p, drafts, law).min())) - 1e-7


def _one_way(p: FloatArray, drafts: IntArray, law: FloatArray) -> float:
    """A flow that fills tuple by tuple and takes nothing back, less the maximum."""
    room, carried = p.copy(), 0.0
    for row, amount in zip(members(drafts, p.size), law, strict=True):
        for token in np.flatnonzero(row):
            taken = min(amount, room[token])
            room[token] -= taken
            amount -= taken
            carried += taken
    return float(carried - (1 + psi(p, drafts, law).min()))


@claim("gr-section-5.2", table, cost=5, mutants={"A flow that takes nothing back is maximal.": _one_way})
def section_5_2(p: FloatArray, drafts: IntArray, law: FloatArray) -> float:
    """A maximum flow from V to the tuples, with capacities p and pdraft, is a solution S* of the relaxed program.
    [thomas2025global, section 5.2]

    Remark: The value of the flow is held against all 2^V token sets.
    """
    member = members(drafts, p.size)
    served = transport(p, member, law)
    over = max(float((served.sum(axis=0) - p).max()), float((served.sum(axis=1) - law).max()), -float(served.min()))
    return -max(over, abs(float(served.sum()) - (1 + psi(p, drafts, law).min())))


def _bipartite(rng: np.random.Generator) -> dict[str, Any]:
    """Edges, as an array of 0 and 1 with a row for every b; a z on them; x and y that it meets, nearly or not at all.

    All are integers, so that every comparison is exact.
    """
    left, right = int(rng.integers(1, 6)), int(rng.integers(1, 7))
    edges = (rng.random((right, left)) < rng.choice([0.3, 0.6, 0.9])).astype(np.int64)
    z = rng.integers(0, 4, edges.shape) * edges
    x, y = z.sum(axis=0), z.sum(axis=1)
    if rng.random() < 0.5:
        y += rng.integers(0, 3, right)
    for changed in (x, y):
        if rng.random() < 0.3:  # one more or less, or one that goes elsewhere
            changed[rng.integers(changed.size)] += 1
            lower = rng.integers(changed.size)
            changed[lower] -= rng.choice([0, 1]) if changed[lower] else 0
    return {"x": x, "y": y, "edges": edges, "z": z}


def _network(x: IntArray, y: IntArray, edges: IntArray, z: IntArray) -> tuple[IntArray, IntArray]:
    """Capacities of the network of Lemma F.1, and the f of its condition (2), by pairs of nodes: s, all a, all b, t."""
    right, left = edges.shape
    capacity, flow = np.zeros((2, left + right + 2, left + right + 2), dtype=np.int64)
    a, b, sink = slice(1, left + 1), slice(left + 1, -1), left + right + 1
    capacity[0, a], capacity[b, sink] = x, y
    capacity[a, b] = edges.T * (x.sum() + y.sum() + z.sum() + 1)  # more than can ever flow
    flow[0, a], flow[a, b], flow[b, sink] = x, z.T, z.sum(axis=1)
    return capacity, flow


def _is_maximum(capacity: IntArray, flow: IntArray) -> bool:
    """Whether f is a flow from the first node to the last that no path can augment."""
    if not ((flow >= 0) & (flow <= capacity)).all() or (flow.sum(axis=0) != flow.sum(axis=1))[1:-1].any():
        return False
    residual = csr_array(capacity - flow + flow.T)
    return len(capacity) - 1 not in breadth_first_order(residual, 0, return_predecessors=False)


def _totals(x: IntArray, y: IntArray, edges: IntArray, z: IntArray) -> float:
    return 0.0 if (x.sum() <= y.sum()) == _is_maximum(*_network(x, y, edges, z)) else -1.0


@claim(
    "gr-lemma-F.1", _bipartite, tol=0.0, cost=3, mutants={"If and only if the sum of x is at most that of y.": _totals}
)
def lemma_f_1(x: IntArray, y: IntArray, edges: IntArray, z: IntArray) -> float:
    """z on the edges meets all x_a exactly and exceeds no y_b if and only if f(s->a) = x_a, f(a->b) = z_ab, f(b->t) =
    sum of z_ab is a maximum flow of the network. [thomas2025global, Lemma F.1]

    Remark: In integers, for any z. A maximum flow is one that no path of the residual network augments.
    Margin: Minus 1 where z meets just one of both conditions.
    """
    meets = bool((z.sum(axis=0) == x).all() and (z.sum(axis=1) <= y).all())
    return 0.0 if meets == _is_maximum(*_network(x, y, edges, z)) else -1.0


def _solvable(x: IntArray, y: IntArray, member: BoolArray) -> bool:
    """Whether some z >= 0 on the edges has exactly these sums."""
    if not member.any():
        return not (x.any() or y.any())
    totals = np.concatenate(sums(member)), np.concatenate((x, y)).astype(np.float64)
    return not np.isnan(Program(np.zeros(int(member.sum())), equal=totals).solve()[0])


@claim("gr-lemma-G.1", _bipartite, cost=15, mutants={"For S of one member.": {"most": 1}})
def lemma_g_1(x: IntArray, y: IntArray, edges: IntArray, z: IntArray, most: int | None = None) -> float:
    """The system of Lemma F.1 is feasible if and only if sum over S of x_a <= sum over N(S) of y_b for all S; with
    equalities for y_b if and only if the sum of all x_a is that of all y_b, too. [thomas2025global, Lemma G.1; a
    theorem of Gale]

    Remark: In integers. The first half in a stronger form: what no flow can serve is the largest violation of these
    inequalities. The second by a linear program.
    Margin: What no flow can serve against the largest violation; with equalities, what a linear program finds feasible.
    """
    sets = token_sets(x.size)
    sets = sets if most is None else sets[sets.sum(axis=1) <= most]
    neighbours = (edges @ sets.T > 0).T @ y
    missing = float((sets @ x - neighbours).max())
    solvable = _solvable(x, y, edges.astype(bool))
    if solvable != (missing <= 0 and x.sum() == y.sum()):
        return -1.0
    served = transport(x.astype(np.float64), edges.astype(bool), y.astype(np.float64))
    return -abs(float(served.sum()) - (float(x.sum()) - missing))


def _inside(drafts: IntArray, tokens: BoolArray) -> BoolArray:
    within: BoolArray = np.logical_and.reduce(tokens[drafts], axis=1)
    return within


def _minimisers(p: FloatArray, drafts: IntArray, law: FloatArray, every: bool = False) -> list[BoolArray]:
    """The minimisers of psi; or every set."""
    values = psi(p, drafts, law)
    return [row.astype(bool) for row in token_sets(p.size)[every | (values <= values.min() + TIE)]]


def _violation(p: FloatArray, drafts: IntArray, law: FloatArray, served: FloatArray, tokens: BoolArray) -> float:
    """Largest error in the system (6) for H = tokens."""
    within = _inside(drafts, tokens)
    spent, got = served.sum(axis=1), served.sum(axis=0)
    parts = (
        -served,
        (got - p)[~tokens],
        np.abs(spent - law)[~within],
        np.abs(got - p)[tokens],
        (spent - law)[within],
        np.abs(served[np.ix_(~within, tokens)]),
        np.abs(served[~members(drafts, p.size)]),
    )
    return max(float(part.max(initial=0.0)) for part in parts)


@claim("gr-theorem-5.1-necessary", _optimal, cost=10, mutants={"For every H.": {"every": True}})
def theorem_5_1_necessary(
    p: FloatArray, drafts: IntArray, law: FloatArray, orders: IntArray, share: float, every: bool = False
) -> float:
    """Every optimal S* solves the complementary slackness system (6). [thomas2025global, Theorem 5.1]

    Hypotheses: For every minimiser H*, where there are several.
    """
    served = _solution(p, members(drafts, p.size), law, orders, share)
    return -max(_violation(p, drafts, law, served, tokens) for tokens in _minimisers(p, drafts, law, every))


def _joined(
    p: FloatArray, drafts: IntArray, law: FloatArray, tokens: BoolArray, order: IntArray | None = None
) -> FloatArray:
    """Maximum flows of the outer and the inner network for H = tokens, side by side."""
    member, within = members(drafts, p.size), _inside(drafts, tokens)
    outer = member & ~tokens & ~within[:, None]
    inner = member & within[:, None]
    return transport(p, outer, law, order) + transport(p, inner, law, order)


def _systems_for_all(p: FloatArray, drafts: IntArray, law: FloatArray, orders: IntArray, share: float) -> float:
    """Of all sets alike."""
    best = 1 + psi(p, drafts, law).min()
    return min(float(_joined(p, drafts, law, tokens).sum()) - best for tokens in token_sets(p.size) == 1)


@claim("gr-theorem-5.1-sufficient", _optimal, cost=15, mutants={"For every H.": _systems_for_all})
def theorem_5_1_sufficient(p: FloatArray, drafts: IntArray, law: FloatArray, orders: IntArray, share: float) -> float:
    """Outer and inner system have solutions, and these, joined, are optimal. [thomas2025global, Theorem 5.1, section
    5.3]

    Hypotheses: For every minimiser H*, where there are several.
    Remark: Each system is solved as a maximum flow of its own.
    """
    best = 1 + psi(p, drafts, law).min()
    errors = []
    for tokens in _minimisers(p, drafts, law):
        first, second = (_joined(p, drafts, law, tokens, order) for order in orders)
        served = share * first + (1 - share) * second
        errors += [_violation(p, drafts, law, served, tokens), abs(float(served.sum()) - best)]
    return -max(errors)


@claim("gr-theorem-5.1-shortage", table, cost=40, mutants={"By 1.1 times as much.": {"times": 1.1}})
def theorem_5_1_shortage(p: FloatArray, drafts: IntArray, law: FloatArray, times: float = 1.0) -> float:
    """For a set H in place of H* the system (6) falls short by psi(H) - psi(H*) at least: it has no solution unless H
    is a minimiser. [otspec; on thomas2025global, Theorem 5.1]

    Beside: gr-theorem-5.1-necessary
    """
    values = psi(p, drafts, law)
    least = values.min()
    margins = []
    for value, row in zip(values, token_sets(p.size), strict=True):
        equalities = 1 + value  # P(some draft outside H) + p(H): what (6) wants served in all
        served = float(_joined(p, drafts, law, row.astype(bool)).sum())
        margins.append(equalities - served - times * (value - least))
    return min(margins)


@claim("gr-equation-7", _optimal, cost=10, mutants={"That of pdraft is 0 inside H*, too.": {"inside": True}})
def equation_7(
    p: FloatArray, drafts: IntArray, law: FloatArray, orders: IntArray, share: float, inside: bool = False
) -> float:
    """The residual p_res is 0 on H*, and that of pdraft is 0 on tuples that are not inside H*. [thomas2025global, eq.
    (7)]
    """
    served = _solution(p, members(drafts, p.size), law, orders, share)
    unserved, unspent = np.abs(p - served.sum(axis=0)), np.abs(law - served.sum(axis=1))
    return -max(
        float(np.append(unserved[tokens], unspent[inside | ~_inside(drafts, tokens)]).max())
        for tokens in _minimisers(p, drafts, law)
    )


def _with_minimiser(rng: np.random.Generator) -> dict[str, Any]:
    instance = rejecting(rng)
    row = token_sets(instance["p"].size)[int(psi(**instance).argmin())]
    return {**instance, "tokens": row.astype(np.int64)}


@claim(
    "gr-equation-8",
    _with_minimiser,
    cost=5,
    counterexample={"p": [0.5, 0.5], "drafts": [[0], [1]], "law": [0.5, 0.5], "tokens": [1, 0]},
    mutants={"Without the middle case.": {"middle": False}},
)
def equation_8(p: FloatArray, drafts: IntArray, law: FloatArray, tokens: IntArray, middle: bool = True) -> float:
    """The cases of eq. (8) are the completion (3). [thomas2025global, eq. (8)]

    Assumption: psi(H*) < 0. Where it is 0, and H* not empty, the middle case divides 0 by 0.
    Remark: The smallest minimiser avoids it: psi(H*) = 0 then means an empty H*, and the middle case is void.
    """
    chosen = tokens.astype(bool)
    member, within = members(drafts, p.size), _inside(drafts, chosen)
    served = transport(p, member, law)
    unserved, unspent = p - served.sum(axis=0), law - served.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        by_residuals = served + unspent[:, None] * unserved / unserved.sum()
        completed = unspent[:, None] / unserved.sum() * unserved
    by_cases = np.where(member, served, np.where(within[:, None] & ~chosen & middle, completed, 0.0))
    return -float(np.abs(by_cases - by_residuals).max())


UNCHECKED = (
    Unchecked(
        "Max-flow solvers are much faster than general LP solvers, and the outer network far smaller for large H*.",
        "thomas2025global, sections 5.2, 5.3",
        "Running times; see benchmarks/global_resolution.",
    ),
)
