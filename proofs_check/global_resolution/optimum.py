"""Sections 3 and 5.1, appendices A, E and N: the optimum as a choice of a token set, and how to find that set."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from otspec.laws import FloatArray, IntArray, likeliest
from otspec.proofs_check.claim import Claim, Mutation, Unchecked, Verdict
from otspec.proofs_check.instances import distinct, iid, law, pair, positive_law, table
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
from otspec.proofs_check.search import Listed
from otspec.schemes import Greedy


def _subset_formula(p: FloatArray, drafts: IntArray, law: FloatArray) -> float:
    value, _ = relaxed_program(p, members(drafts, p.size), law).solve()
    return -abs(value - (1 + psi(p, drafts, law).min()))


def _relaxation(p: FloatArray, drafts: IntArray, law: FloatArray) -> float:
    member = members(drafts, p.size)
    return -abs(full_program(p, member, law).solve()[0] - relaxed_program(p, member, law).solve()[0])


def _without_p(p: FloatArray, drafts: IntArray, law: FloatArray) -> float:
    """The same where the relaxed program holds no token to its p."""
    member = members(drafts, p.size)
    return -abs(full_program(p, member, law).solve()[0] - relaxed_program(np.ones_like(p), member, law).solve()[0])


def _few_sets(p: FloatArray, drafts: IntArray, law: FloatArray) -> float:
    """The subset formula with sets of one token, and none."""
    value, _ = relaxed_program(p, members(drafts, p.size), law).solve()
    return -abs(value - (1 + psi(p, drafts, law)[token_sets(p.size).sum(axis=1) <= 1].min()))


def _completion(p: FloatArray, drafts: IntArray, law: FloatArray, evenly: bool = False) -> float:
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


def _rejecting(rng: np.random.Generator) -> dict[str, Any]:
    """An instance of `table` with alpha* < 1."""
    while True:
        instance = table(rng)
        if psi(**instance).min() < -1e-6:
            return instance


def _dual(p: FloatArray, drafts: IntArray, law: FloatArray, touching: bool = False) -> float:
    by_token, by_tuple = sums(members(drafts, p.size))
    covered = -np.concatenate((by_token, by_tuple)).T
    program = Program(-np.concatenate((p, law)), at_most=(covered, np.full(len(covered), -1.0)))
    value, _ = program.solve()
    sets = token_sets(p.size)
    marked = sets if touching else 1.0 - sets
    leaves = members(drafts, p.size).astype(np.float64) @ marked.T > 0  # z of eq. (36), by tuple and H
    return -abs(-value - float((sets @ p + law @ leaves).min()))


def _minor(draws: IntArray, rows: IntArray, columns: IntArray, among: tuple[float, ...] = (-1.0, 0.0, 1.0)) -> float:
    vocab, n = (int(number) for number in draws)
    member = members(np.array(list(np.ndindex(*(vocab,) * n))), vocab)
    matrix = np.concatenate(sums(member))
    minor = float(np.linalg.det(matrix[np.ix_(rows, columns)]))
    return -min(abs(minor - value) for value in among)


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


def _prefix(p: FloatArray, q: FloatArray, n: int, ties: FloatArray) -> float:
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = q / p
    ratio[np.isnan(ratio)] = np.tan(1.5 * ties[np.isnan(ratio)])  # 0/0 stands anywhere
    values = psi_independent(p, np.tile(q, (n, 1)))
    return -float(values[prefixes(np.lexsort((ties, -ratio)))].min() - values.min())


def _by_draft(p: FloatArray, q: FloatArray, n: int, ties: FloatArray) -> float:
    """The same by decreasing q."""
    values = psi_independent(p, np.tile(q, (n, 1)))
    return -float(values[prefixes(np.lexsort((ties, -q)))].min() - values.min())


def _tied(rng: np.random.Generator) -> dict[str, Any]:
    instance = iid(rng)
    return {**instance, "ties": rng.random(instance["p"].size)}


def _single(p: FloatArray, q: FloatArray) -> float:
    value, _ = full_program(p, np.eye(p.size, dtype=bool), q).solve()
    return -abs(value - float(np.minimum(p, q).sum()))


def _independent_pair(p: FloatArray, q: FloatArray) -> float:
    value, _ = full_program(p, np.eye(p.size, dtype=bool), q).solve()
    return -abs(value - float(p @ q))


def _truncation(p: FloatArray, q: FloatArray, n: int, k: int, rescaled: bool = False) -> float:
    kept = np.sort(likeliest(q, k))
    drafted = np.zeros_like(q)
    drafted[kept] = q[kept] / q[kept].sum()
    drafts = np.array(list(np.ndindex(*(k,) * n)))
    mass = np.prod(drafted[kept][drafts], axis=1)
    cut = p[kept] / p[kept].sum() if rescaled and p[kept].any() else p[kept]
    value, _ = relaxed_program(cut, members(drafts, k), mass).solve()
    return -abs(value - iid_optimum(p, drafted, n))


def _truncated(rng: np.random.Generator) -> dict[str, Any]:
    size = int(rng.integers(2, 7))
    q = positive_law(rng, size)
    return {"p": law(rng, size), "q": q, "n": int(rng.integers(1, 4)), "k": int(rng.integers(1, min(size, 4) + 1))}


def _greedy_support(q: FloatArray, n: int, more: int = 1) -> float:
    return -abs(len(Greedy(q, n).support().drafts) - (q.size - n + more))


def _greedy_draws() -> Iterator[dict[str, Any]]:
    for size in range(1, 7):
        for n in range(1, size + 1):
            yield {"q": np.arange(1.0, size + 1) / np.arange(1.0, size + 1).sum(), "n": n}


CLAIMS = (
    Claim(
        "gr-equation-2",
        "The relaxed program (2) has the optimal value alpha* of the transport program (1).",
        "hu2025towards; thomas2025global, section 3.2",
        lambda rng: table(rng, largest=4),
        _relaxation,
        hypotheses="Any p, and any law of the n drafts.",
        tol=LP_TOL,
        cost=30,
        remark="Both programs are solved by HiGHS, tuple by tuple.",
        mutations=(Mutation("Without its constraint on tokens.", _without_p),),
    ),
    Claim(
        "gr-equation-3",
        "S* completed by its residuals, eq. (3), is an optimal coupling C* of the transport program.",
        "hu2025towards; thomas2025global, eq. (3)",
        _rejecting,
        _completion,
        hypotheses="S* is an optimal solution of the relaxed program.",
        cost=5,
        expected=Verdict.HIDDEN,
        assumption="alpha* < 1. Otherwise all residuals are 0, and eq. (3) divides 0 by 0.",
        counterexample={"p": np.array([1.0, 0.0]), "drafts": np.array([[0]]), "law": np.array([1.0])},
        remark="Where alpha* = 1 nothing has to be added: C* = S*. An implementation needs this case.",
        mutations=(
            Mutation(
                "What is unspent goes to all tokens alike.", lambda **instance: _completion(**instance, evenly=True)
            ),
        ),
    ),
    Claim(
        "gr-theorem-3.1",
        "The optimal acceptance is alpha* = 1 + min over H of psi(H), psi(H) = p(H) - P(all drafts in H).",
        "hu2025towards; thomas2025global, Theorem 3.1",
        table,
        _subset_formula,
        hypotheses="Any p, and any law of the n drafts; H may be empty.",
        tol=LP_TOL,
        cost=20,
        remark="The relaxed program by HiGHS against all 2^V token sets.",
        mutations=(Mutation("The minimum over H of at most one token.", _few_sets),),
    ),
    Claim(
        "gr-appendix-E",
        "The dual (35) of the relaxed program has a binary optimal solution: y marks H, z the tuples not in H^n (36).",
        "hu2025towards; thomas2025global, Appendix E, eq. (35), (36)",
        table,
        _dual,
        tol=LP_TOL,
        cost=20,
        mutations=(
            Mutation("z marks the tuples with a draft in H.", lambda **instance: _dual(**instance, touching=True)),
        ),
    ),
    Claim(
        "gr-appendix-E-unimodular",
        "The constraints of the relaxed program form a totally unimodular matrix.",
        "hu2025towards; thomas2025global, Appendix E",
        _submatrix,
        _minor,
        tol=1e-9,
        cost=3,
        remark="Determinants of random square submatrices, by LU; the matrix is the incidence of a bipartite graph.",
        mutations=(Mutation("No determinant is -1.", lambda **instance: _minor(**instance, among=(0.0, 1.0))),),
    ),
    Claim(
        "gr-prefix-minimiser",
        "For i.i.d. drafts a prefix of the order of decreasing q/p minimises psi.",
        "hu2025towards; thomas2025global, section 5.1",
        _tied,
        _prefix,
        cost=3,
        remark="Tokens of equal q/p may stand in any order, those with p = q = 0 anywhere: both are drawn at random.",
        mutations=(Mutation("In the order of decreasing q.", _by_draft),),
    ),
    Claim(
        "gr-appendix-A",
        "With one draft alpha* is the sum of min(p, q).",
        "chen2023accelerating; leviathan2023fast; thomas2025global, Appendix A",
        pair,
        _single,
        tol=LP_TOL,
        cost=20,
        remark="Against the best coupling of p and q, by HiGHS.",
        mutations=(Mutation("It is the sum of p q, of an independent draft.", _independent_pair),),
    ),
    Claim(
        "gr-appendix-N",
        "Top-k drafts reduce the relaxed program to the k tokens, with p cut to them and not rescaled; alpha* stays.",
        "thomas2025global, Appendix N, eq. (137)",
        _truncated,
        _truncation,
        hypotheses="Eq. (137) with its zero constraint for i not in set(i); as printed, see gr-equation-137.",
        tol=LP_TOL,
        cost=20,
        remark="True of alpha*. Theorem 6.1 is another matter: it uses that p sums to 1.",
        mutations=(
            Mutation("With p rescaled to the k tokens.", lambda **instance: _truncation(**instance, rescaled=True)),
        ),
    ),
    Claim(
        "gr-greedy-support",
        "Greedy drafts are one of O(V) tuples, not of V^n: of V - n + 1.",
        "hu2025towards; thomas2025global, section 5, footnote 1",
        lambda rng: {"q": positive_law(rng, 5), "n": int(distinct(rng)["n"])},
        _greedy_support,
        tol=0.0,
        search=Listed(_greedy_draws),
        mutations=(Mutation("Of V - n.", lambda **instance: _greedy_support(**instance, more=0)),),
    ),
)

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
