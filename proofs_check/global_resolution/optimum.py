"""Sections 3 and 5.1, appendices A, E and N: the optimum as a choice of a token set, and how to find that set."""

from __future__ import annotations

from typing import Any

import numpy as np

from otspec.laws import FloatArray, IntArray, likeliest
from otspec.proofs_check.claims import Unchecked, claim
from otspec.proofs_check.instances import iid, law, pair, positive_law, rejecting, table
from otspec.proofs_check.oracles import (
    LP_TOL,
    Program,
    full_program,
    iid_optimum,
    members,
    prefixes,
    psi,
    psi_independent,
    relaxed_program,
    sums,
    token_sets,
    transport,
)
from otspec.proofs_check.single_draft import restricted
from otspec.schemes import Greedy


@claim(
    "gr-equation-2",
    lambda rng: table(rng, largest=4),
    tol=LP_TOL,
    cost=30,
    mutants={"Without its constraint on tokens.": {"bounded": False}},
)
def equation_2(p: FloatArray, drafts: IntArray, law: FloatArray, bounded: bool = True) -> float:
    """The relaxed program (2) has the optimal value alpha* of the transport program (1). [hu2025towards;
    thomas2025global, section 3.2]

    Hypotheses: Any p, and any law of the n drafts.
    Remark: Both programs are solved by HiGHS, tuple by tuple.
    """
    member = members(drafts, p.size)
    relaxed = relaxed_program(p if bounded else np.ones_like(p), member, law)
    return -abs(full_program(p, member, law).solve()[0] - relaxed.solve()[0])


@claim(
    "gr-equation-3",
    rejecting,
    cost=5,
    counterexample={"p": [1.0, 0.0], "drafts": [[0]], "law": [1.0]},
    mutants={"What is unspent goes to all tokens alike.": {"evenly": True}},
)
def equation_3(p: FloatArray, drafts: IntArray, law: FloatArray, evenly: bool = False) -> float:
    """S* completed by its residuals, eq. (3), is an optimal coupling C* of the transport program. [hu2025towards;
    thomas2025global, eq. (3)]

    Hypotheses: S* is an optimal solution of the relaxed program.
    Assumption: alpha* < 1. Otherwise all residuals are 0, and eq. (3) divides 0 by 0.
    Remark: Where alpha* = 1 nothing has to be added: C* = S*. An implementation needs this case.
    """
    member = members(drafts, p.size)
    served = transport(p, member, law)
    unserved, unspent = p - served.sum(axis=0), law - served.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        coupling = served + unspent[:, None] * (1 / p.size if evenly else unserved / unserved.sum())
    errors = (
        np.abs(coupling.sum(axis=0) - p).max(),
        np.abs(coupling.sum(axis=1) - law).max(),
        -coupling.min(),
        abs(coupling[member].sum() - (1 + psi(p, drafts, law).min())),
    )
    return -float(np.max(errors))  # NaN if any of them is


@claim("gr-theorem-3.1", table, tol=LP_TOL, cost=20, mutants={"The minimum over H of at most one token.": {"most": 1}})
def theorem_3_1(p: FloatArray, drafts: IntArray, law: FloatArray, most: int | None = None) -> float:
    """The optimal acceptance is alpha* = 1 + min over H of psi(H), psi(H) = p(H) - P(all drafts in H). [hu2025towards;
    thomas2025global, Theorem 3.1]

    Hypotheses: Any p, and any law of the n drafts; H may be empty.
    Remark: The relaxed program by HiGHS against all 2^V token sets.
    """
    value, _ = relaxed_program(p, members(drafts, p.size), law).solve()
    sets = token_sets(p.size).sum(axis=1) <= (p.size if most is None else most)
    return -abs(value - (1 + psi(p, drafts, law)[sets].min()))


@claim(
    "gr-appendix-E", table, tol=LP_TOL, cost=20, mutants={"z marks the tuples with a draft in H.": {"touching": True}}
)
def appendix_e(p: FloatArray, drafts: IntArray, law: FloatArray, touching: bool = False) -> float:
    """The dual (35) of the relaxed program has a binary optimal solution: y marks H, z the tuples not in H^n (36).
    [hu2025towards; thomas2025global, Appendix E, eq. (35), (36)]
    """
    by_token, by_tuple = sums(members(drafts, p.size))
    covered = -np.concatenate((by_token, by_tuple)).T
    program = Program(-np.concatenate((p, law)), at_most=(covered, np.full(len(covered), -1.0)))
    value, _ = program.solve()
    sets = token_sets(p.size)
    marked = sets if touching else 1.0 - sets
    leaves = members(drafts, p.size).astype(np.float64) @ marked.T > 0  # z of eq. (36), by tuple and H
    return -abs(-value - float((sets @ p + law @ leaves).min()))


def _submatrix(rng: np.random.Generator) -> dict[str, Any]:
    vocab, n = int(rng.integers(2, 4)), int(rng.integers(1, 4))
    member = members(np.array(list(np.ndindex(*(vocab,) * n))), vocab)
    size = int(rng.integers(1, vocab + 4))
    rows, columns = vocab + len(member), int(member.sum())
    size = min(size, rows, columns)
    return {
        "draws": np.array([vocab, n]),
        "rows": rng.permutation(rows)[:size],
        "columns": rng.permutation(columns)[:size],
    }


@claim(
    "gr-appendix-E-unimodular", _submatrix, tol=1e-9, cost=3, mutants={"No determinant is -1.": {"among": (0.0, 1.0)}}
)
def appendix_e_unimodular(
    draws: IntArray, rows: IntArray, columns: IntArray, among: tuple[float, ...] = (-1.0, 0.0, 1.0)
) -> float:
    """The constraints of the relaxed program form a totally unimodular matrix. [hu2025towards; thomas2025global,
    Appendix E]

    Remark: Determinants of random square submatrices, by LU; the matrix is the incidence of a bipartite graph.
    """
    vocab, n = (int(number) for number in draws)
    member = members(np.array(list(np.ndindex(*(vocab,) * n))), vocab)
    matrix = np.concatenate(sums(member))
    minor = float(np.linalg.det(matrix[np.ix_(rows, columns)]))
    return -min(abs(minor - value) for value in among)


def _tied(rng: np.random.Generator) -> dict[str, Any]:
    instance = iid(rng)
    return {**instance, "ties": rng.random(instance["p"].size)}


@claim("gr-prefix-minimiser", _tied, cost=3, mutants={"In the order of decreasing q.": {"by_draft": True}})
def prefix_minimiser(p: FloatArray, q: FloatArray, n: int, ties: FloatArray, by_draft: bool = False) -> float:
    """For i.i.d. drafts a prefix of the order of decreasing q/p minimises psi. [hu2025towards; thomas2025global,
    section 5.1]

    Remark: Tokens of equal q/p may stand in any order, those with p = q = 0 anywhere: both are drawn at random.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = q / p
    ratio[np.isnan(ratio)] = np.tan(1.5 * ties[np.isnan(ratio)])  # 0/0 stands anywhere
    values = psi_independent(p, np.tile(q, (n, 1)))
    return -float(values[prefixes(np.lexsort((ties, -q if by_draft else -ratio)))].min() - values.min())


@claim(
    "gr-appendix-A",
    pair,
    tol=LP_TOL,
    cost=20,
    mutants={"It is the sum of p q, of an independent draft.": {"independent": True}},
)
def appendix_a(p: FloatArray, q: FloatArray, independent: bool = False) -> float:
    """With one draft alpha* is the sum of min(p, q). [chen2023accelerating; leviathan2023fast; thomas2025global,
    Appendix A]

    Remark: Against the best coupling of p and q, by HiGHS.
    """
    value, _ = full_program(p, np.eye(p.size, dtype=bool), q).solve()
    return -abs(value - float(p @ q if independent else np.minimum(p, q).sum()))


def _truncated(rng: np.random.Generator) -> dict[str, Any]:
    size = int(rng.integers(2, 7))
    q = positive_law(rng, size)
    return {"p": law(rng, size), "q": q, "n": int(rng.integers(1, 4)), "k": int(rng.integers(1, min(size, 4) + 1))}


@claim(
    "gr-appendix-N", _truncated, tol=LP_TOL, cost=20, mutants={"With p rescaled to the k tokens.": {"rescaled": True}}
)
def appendix_n(p: FloatArray, q: FloatArray, n: int, k: int, rescaled: bool = False) -> float:
    """Top-k drafts reduce the relaxed program to the k tokens, with p cut to them and not rescaled; alpha* stays.
    [thomas2025global, Appendix N, eq. (137)]

    Hypotheses: Eq. (137) with its zero constraint for i not in set(i); as printed, see gr-equation-137.
    Remark: True of alpha*. Theorem 6.1 is another matter: it uses that p sums to 1.
    """
    kept = np.sort(likeliest(q, k))
    drafted = restricted(q, kept)
    drafts = np.array(list(np.ndindex(*(k,) * n)))
    mass = np.prod(drafted[kept][drafts], axis=1)
    cut = p[kept] / p[kept].sum() if rescaled and p[kept].any() else p[kept]
    value, _ = relaxed_program(cut, members(drafts, k), mass).solve()
    return -abs(value - iid_optimum(p, drafted, n))


GREEDY = [
    {"q": np.arange(1.0, size + 1) / np.arange(1.0, size + 1).sum(), "n": n}
    for size in range(1, 7)
    for n in range(1, size + 1)
]


@claim("gr-greedy-support", GREEDY, tol=0.0, mutants={"Of V - n.": {"more": 0}})
def greedy_support(q: FloatArray, n: int, more: int = 1) -> float:
    """Greedy drafts are one of O(V) tuples, not of V^n: of V - n + 1. [hu2025towards; thomas2025global, section 5,
    footnote 1]
    """
    return -abs(len(Greedy(q, n).support().drafts) - (q.size - n + more))


UNCHECKED = (
    Unchecked(
        "Minimising psi is NP-hard in general.",
        "thomas2025global, section 5.1",
        "Hardness is not a matter of numbers. It is about arbitrary set functions: every psi of eq. (4) is submodular, "
        "whatever the law of the drafts (hit-submodular), so only the cost of evaluating it can stand in the way.",
    ),
    Unchecked(
        "H* is found in O(V log V) for i.i.d. drafts.",
        "hu2025towards; thomas2025global, section 5.1",
        "A running time; it follows from gr-prefix-minimiser, one sort and cumulative sums.",
    ),
)
