"""Appendices C and D, and H* in Table 5: submodularity, minimum cuts, and how far prefixes carry."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, maximum_flow

from otspec.certificate import optimum
from otspec.laws import FloatArray, IntArray
from otspec.problem import Problem
from otspec.proofs_check.claims import Unchecked, claim
from otspec.proofs_check.global_resolution.split import mask_of
from otspec.proofs_check.instances import distinct, independent, law, laws
from otspec.proofs_check.oracles import prefixes, psi, psi_independent, submodularity, token_sets
from otspec.proofs_check.search import Descent
from otspec.schemes import Independent, WithoutReplacement

GRID = 64
"""Draft laws on this grid, and targets on its square, make all capacities of a minimum cut integers."""


@claim("gr-theorem-C.1", independent, Descent("p qs"), cost=2, mutants={"psi is modular.": {"sign": -1}})
def theorem_c_1(p: FloatArray, qs: FloatArray, sign: int = 1) -> float:
    """psi is submodular for independent drafts from any q_1, ..., q_n. [thomas2025global, Theorem C.1]

    Remark: It is submodular for every law of the drafts, correlated ones included: hit-submodular.
    """
    return submodularity(sign * psi_independent(p, qs))


def _three_masses(rng: np.random.Generator) -> dict[str, Any]:
    n = int(rng.integers(1, 5))
    c, more, other = rng.random((3, n)) / 3
    return {"a": c + more, "b": c + other, "c": c}


@claim(
    "gr-appendix-C-expansion", _three_masses, cost=3, mutants={"(27) without the product of the c_j.": {"share": 0.0}}
)
def appendix_c_expansion(a: FloatArray, b: FloatArray, c: FloatArray, share: float = 1.0) -> float:
    """The identities (30), (31), B >= C and the inequality (27) hold for a_j, b_j >= c_j >= 0. [thomas2025global,
    Appendix C]
    """

    def subsets(low: FloatArray) -> float:
        terms = itertools.product(*zip(a - c, low, strict=True))
        return sum(float(np.prod(term)) for term in terms) - float(np.prod(low))

    upper, lower = subsets(b), subsets(c)  # B and C of eq. (28), (29)
    errors = (
        abs(float(np.prod(a - c + b)) - float(np.prod(b)) - upper),
        abs(float(np.prod(a)) - float(np.prod(c)) - lower),
    )
    return min(upper - lower, float(np.prod(a + b - c) + share * np.prod(c) - np.prod(a) - np.prod(b)), -max(errors))


def _rho(p: FloatArray, q1: FloatArray, q2: FloatArray, sign: float) -> FloatArray:
    """Eq. (34) of every binary vector x, with this sign of its second sum."""
    x = token_sets(p.size)
    return x @ p + sign * np.einsum("si,i,j,sj->s", x, q1, q2, x)


def _two_drafts(rng: np.random.Generator) -> dict[str, Any]:
    return laws(rng, 5, p=law, q1=law, q2=law)


@claim("gr-equation-34", _two_drafts, counterexample={"p": [0.5, 0.5], "q1": [1.0, 0.0], "q2": [1.0, 0.0]})
def equation_34(p: FloatArray, q1: FloatArray, q2: FloatArray) -> float:
    """For two independent drafts psi(H) is rho(x) = sum of p_i x_i PLUS sum of q1(i) q2(j) x_i x_j, eq. (34).
    [thomas2025global, Appendix D, eq. (34)]

    Instead: A minus before the second sum: see gr-equation-34-repaired.
    Remark: Eq. (33), one line above, has the minus. As printed, rho is least at x = 0 for all p and q, and it is
    supermodular, so that no minimum cut would find it.
    """
    return -float(np.abs(_rho(p, q1, q2, 1.0) - psi_independent(p, np.array([q1, q2]))).max())


@claim("gr-equation-34-repaired", _two_drafts, mutants={"The second sum over i and j that differ.": {"of_pairs": True}})
def equation_34_repaired(p: FloatArray, q1: FloatArray, q2: FloatArray, of_pairs: bool = False) -> float:
    """For two independent drafts psi(H) is rho(x) = sum of p_i x_i MINUS sum of q1(i) q2(j) x_i x_j. [thomas2025global,
    Appendix D, eq. (34), with the sign of eq. (33)]

    Beside: gr-equation-34
    """
    diagonal = token_sets(p.size) @ (q1 * q2) if of_pairs else 0.0
    return -float(np.abs(_rho(p, q1, q2, -1.0) + diagonal - psi_independent(p, np.array([q1, q2]))).max())


def _grid_laws(rng: np.random.Generator) -> dict[str, Any]:
    size = int(rng.integers(2, 7))
    laws = {name: rng.multinomial(GRID, law(rng, size)) / GRID for name in ("q1", "q2")}
    return {"p": rng.multinomial(GRID**2, law(rng, size)) / GRID**2, **laws}


@claim("gr-appendix-D", _grid_laws, cost=6, mutants={"Without the diagonal.": {"diagonal": False}})
def appendix_d(p: FloatArray, q1: FloatArray, q2: FloatArray, diagonal: bool = True) -> float:
    """For two independent drafts one minimum s-t cut, on V + 2 nodes, finds H*. [thomas2025global, Appendix D]

    Hypotheses: rho with the minus sign; x_i^2 = x_i on the diagonal.
    Remark: On laws on a grid, so that capacities are integers and the cut is exact.
    """
    return appendix_d_any_pair(p, np.outer(q1, q2), diagonal)


def _grid_pairs(rng: np.random.Generator) -> dict[str, Any]:
    size = int(rng.integers(2, 6))
    pairs = rng.multinomial(GRID**2, law(rng, size * size)) / GRID**2
    return {"p": rng.multinomial(GRID**2, law(rng, size)) / GRID**2, "pairs": pairs.reshape(size, size)}


@claim("gr-appendix-D-any-pair", _grid_pairs, cost=6, mutants={"Without the diagonal.": {"diagonal": False}})
def appendix_d_any_pair(p: FloatArray, pairs: FloatArray, diagonal: bool = True) -> float:
    """One minimum s-t cut on V + 2 nodes finds H* for two drafts of any joint law. [otspec; the construction of
    thomas2025global, Appendix D, needs no independence]

    Beside: gr-appendix-D
    Remark: psi is quadratic in x for any two drafts, and no pair of tokens has a positive coefficient.
    Margin: psi of the token set that one minimum cut finds, against the least psi of all; exact in integers. P is the
    joint law of two drafts. With w_ij = P_ij + P_ji and r_i = p_i - P_ii - sum over j > i of w_ij, rho(x) is the sum of
    r_i x_i and of w_ij x_i (1 - x_j), j > i.
    """
    size = p.size
    joint = np.rint(pairs * GRID**2).astype(np.int64)
    own = np.rint(p * GRID**2).astype(np.int64) - (np.diag(joint) if diagonal else 0)
    both = np.triu(joint + joint.T, 1)
    own -= both.sum(axis=1)
    source, sink = size, size + 1
    capacity = np.zeros((size + 2, size + 2), dtype=np.int32)
    capacity[:size, :size] = both
    capacity[:size, sink], capacity[source, :size] = np.maximum(own, 0), np.maximum(-own, 0)
    flow = maximum_flow(csr_array(capacity), source, sink).flow.toarray()
    reached = breadth_first_order(csr_array(capacity - flow), source, return_predecessors=False)
    values = psi(p, np.array(list(np.ndindex(size, size))), pairs.ravel())
    return -float(values[int((1 << reached[reached < size]).sum())] - values.min())


def _psi_of_distinct(p: FloatArray, q: FloatArray, n: int) -> FloatArray:
    problem = Problem(p, WithoutReplacement(q, n))
    return psi(problem.p, *problem.scheme.support())


def _falling(q: FloatArray, p: FloatArray) -> IntArray:
    """The tokens by decreasing q/p, those with p = q = 0 first."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.argsort(-np.nan_to_num(q / p, nan=np.inf, posinf=np.inf), kind="stable")


@claim(
    "gr-table-5-distinct-step-1",
    distinct,
    Descent("p q"),
    cost=4,
    mutants={"In the order of decreasing q.": {"by_draft": True}},
)
def table_5_distinct_step_1(p: FloatArray, q: FloatArray, n: int, by_draft: bool = False) -> float:
    """For drafts without replacement a prefix of the order of decreasing q/p minimises psi. [hu2025towards, Theorem 4;
    thomas2025global, Table 5, Appendix S]
    """
    values = _psi_of_distinct(p, q, n)
    order = np.argsort(-q, kind="stable") if by_draft else _falling(q, p)
    return -float(values[prefixes(order)].min() - values.min())


def _nested_sets(rng: np.random.Generator) -> dict[str, Any]:
    instance = distinct(rng)
    level = rng.integers(0, 3, instance["p"].size)
    return {**instance, "least": (level == 0).astype(np.int64), "most": (level < 2).astype(np.int64)}


@claim(
    "gr-table-5-distinct-lemma-6.3",
    _nested_sets,
    Descent("p q"),
    cost=2,
    mutants={"By increasing q.": {"by_draft": True}},
)
def table_5_distinct_lemma_6_3(
    p: FloatArray, q: FloatArray, n: int, least: IntArray, most: IntArray, by_draft: bool = False
) -> float:
    """For drafts without replacement, too, the least psi between sets A and B is at A and a prefix of B without A.
    [thomas2025global, Lemma 6.3 and Appendix S]

    Margin: The least psi between two token sets, by prefixes of what lies between them, against all sets.
    """
    values = _psi_of_distinct(p, q, n)
    low, high = int((1 << np.flatnonzero(least)).sum()), int((1 << np.flatnonzero(most)).sum())
    masks = np.arange(values.size)
    between = (masks & low == low) & (masks | high == high)
    order = np.argsort(q, kind="stable") if by_draft else _falling(q, p)
    free = order[(most > least)[order]]
    return -float(values[low | prefixes(free)].min() - values[between].min())


@claim(
    "gr-table-5-distinct-step-2",
    distinct,
    cost=12,
    mutants={"psi of the prefixes in place of its cumulative minima.": {"cumulative": False}},
)
def table_5_distinct_step_2(p: FloatArray, q: FloatArray, n: int, cumulative: bool = True) -> float:
    """For drafts without replacement the cumulative minima of section 6.1 give feasible outer residuals.
    [thomas2025global, Table 5, Appendix S]

    Remark: Constraint (9) on every token set outside H*, with equality on all of them, and 0 <= p_i <= p(i).
    Margin: Eq. (10) by cumulative minima along increasing q/p, against the constraints (9).
    """
    values = _psi_of_distinct(p, q, n)
    order = _falling(q, p)
    starts = prefixes(order)
    size = int(values[starts].argmin())  # H* is a prefix; the rest in increasing q/p are v_1, ..., v_k
    least = values[starts[size:]]
    if cumulative:
        least = np.minimum.accumulate(least[::-1])[::-1]  # the least psi over all T that hold a prefix
    served = np.zeros_like(p)
    served[order[size:]] = p[order[size:]] + least[:-1] - least[1:]
    return _feasible(p, values, int(starts[size]), served)


def _feasible(p: FloatArray, values: FloatArray, chosen: int, served: FloatArray) -> float:
    """How well p_i outside H* meet the constraints (9), of all psi and the bit mask of H*."""
    parts = [-served.min(), (served - p).max()]
    everything, sets = values.size - 1, token_sets(p.size)
    for mask in range(values.size):
        if mask & chosen == 0:
            room = float(sets[mask] @ (p - served)) + values[everything ^ mask]
            parts.append(-room if mask != everything ^ chosen else abs(room))
    return -float(max(parts))


@claim(
    "gr-table-5-two-drafters-step-2",
    _two_drafts,
    Descent("p q1 q2"),
    tol=1e-11,
    cost=8,
    mutants={"What it carries if all pairs are divided evenly.": {"evenly": True}},
)
def table_5_two_drafters_step_2(p: FloatArray, q1: FloatArray, q2: FloatArray, evenly: bool = False) -> float:
    """For two independent drafts p_i may be what token i outside H* carries in the maximum flow whose cut is H*.
    [otspec; answers thomas2025global, Table 5, Appendix S]

    Beside: gr-theorem-6.2
    Remark: The paper calls this step possible: its consecutive differences would need a cut for every token. One does
    for all.
    Margin: What the flow leaves to the tokens outside H*, against the constraints (9).
    """
    qs = np.array([q1, q2])
    best = optimum(Problem(p, Independent(qs)))
    inside = np.isin(np.arange(p.size), best.minimiser)
    carried = qs.mean(axis=0) if evenly else best.proposal
    return _feasible(p, psi_independent(p, qs), mask_of(inside), np.where(inside, 0.0, np.minimum(p, carried)))


UNCHECKED = (
    Unchecked(
        "The minimum cut costs O(V^2.5), in practice about V^2; general submodular minimisation costs O(V^6).",
        "thomas2025global, Appendix D",
        "Running times.",
    ),
    Unchecked(
        "n >= 3 distinct drafts: 'No' for H* and for the outer residuals.",
        "thomas2025global, Table 5",
        "A statement about running times: psi is submodular there as well (gr-theorem-C.1), and a minimum cut of the "
        "network of section 5.2, with a node per draft set, finds H* (own-optimum-independent). Certified optima for "
        "n >= 3 are computed by submodular without either (own-three-distinct-laws).",
    ),
)
