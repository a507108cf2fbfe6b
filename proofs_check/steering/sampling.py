"""Verification of steered drafts: lossless, optimal, and how often it rejects."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from scipy.optimize import linprog

from otspec.laws import FloatArray
from otspec.proofs_check import single_draft
from otspec.proofs_check.claims import claim
from otspec.proofs_check.instances import covered, law, pair
from otspec.proofs_check.search import Descent
from otspec.proofs_check.single_draft import along, child, overlap


def _two_blocks(rng: np.random.Generator) -> dict[str, Any]:
    """A first block of gamma drafts, and a second, steered by all that was drafted in the first."""
    vocab, gamma = int(rng.integers(2, 4)), int(rng.integers(1, 3))
    rows = single_draft.prefixes(vocab, gamma + 1)
    laws = [[law(rng, vocab) for _ in range(rows)] for _ in range(2 + vocab**gamma)]
    steered = np.array(laws[1])
    return {"p": np.array(laws[0]), "steered": steered, "tested": steered, "later": np.array(laws[2:]), "gamma": gamma}


def _tested_uniform(p: FloatArray, steered: FloatArray, tested: FloatArray, later: FloatArray, gamma: int) -> float:
    """Margin of: tests with the uniform law are lossless, too."""
    return lossless(p, steered, np.full_like(tested, 1.0 / p.shape[1]), later, gamma)


EVERYWHERE = np.full((7, 2), 0.5)
SURE = np.tile([0.9, 0.1], (7, 1))


@claim(
    "steering-lossless",
    _two_blocks,
    counterexample={
        "p": EVERYWHERE,
        "steered": SURE,
        "tested": EVERYWHERE,
        "later": np.array([EVERYWHERE] * 2),
        "gamma": 1,
    },
    cost=100,
    mutants={"Tested against the uniform law.": _tested_uniform},
)
def lossless(p: FloatArray, steered: FloatArray, tested: FloatArray, later: FloatArray, gamma: int) -> float:
    """Steered speculative decoding puts out the verifier's law. [berdozsteering, sections 3.1 and 4 (metrics)]

    Assumption: a draft is tested against the steered law that it was drawn from, which is fixed before its block
    Remark: Even where the next block is steered by drafts that were rejected. Tested against the unsteered law, p =
    (0.5, 0.5) and drafts from (0.9, 0.1) put out (0.9, 0.1).
    Margin: Law of the first gamma + 2 tokens, over all drafts of the first block, rejected ones included.
    """
    vocab = p.shape[1]
    size = gamma + 2
    found = np.zeros((vocab,) * size)

    def go_on(put_out: tuple[int, ...], node: int, chance: float, memory: int) -> None:
        """Add the next token, drafted with what is remembered of the first block, and then the target's own."""
        token = single_draft.output(p[node], later[memory, node])
        rest = [token[x] * single_draft.text(p, size - len(put_out) - 1, child(node, x, vocab)) for x in range(vocab)]
        found[put_out] += chance * np.reshape(rest, found[put_out].shape)

    for memory, drafts in enumerate(itertools.product(range(vocab), repeat=gamma)):
        nodes = along(drafts, vocab)
        chance = float(np.prod([steered[node, x] for node, x in zip(nodes, drafts, strict=False)]))
        for i, x in enumerate(drafts):
            accepted = single_draft.accept(p[nodes[i]], tested[nodes[i]])[x]
            for y, replaced in enumerate(single_draft.residual(p[nodes[i]], tested[nodes[i]])):
                go_on((*drafts[:i], y), child(nodes[i], y, vocab), chance * (1.0 - accepted) * replaced, memory)
            chance *= accepted
        for y in range(vocab):
            go_on((*drafts, y), child(nodes[-1], y, vocab), chance * p[nodes[-1], y], memory)
    return -float(np.abs(found.ravel() - single_draft.text(p, size)).max())


def _best_coupling(p: FloatArray, q: FloatArray) -> float:
    """By the linear program of all couplings of draft and output."""
    size = p.size
    sums = np.vstack([np.kron(np.eye(size), np.ones(size)), np.kron(np.ones(size), np.eye(size))])
    found = linprog(-np.eye(size).ravel(), A_eq=sums, b_eq=np.concatenate([q, p]))
    return np.nan if found.fun is None else -float(found.fun)


@claim(
    "steering-optimal",
    lambda rng: pair(rng, largest=4),
    tol=1e-6,  # HiGHS counts a row as met within 1e-7, and there are up to 8
    cost=50,
    mutants={"Nor more often than an independent draft.": {"independent": True}},
)
def optimal(p: FloatArray, q: FloatArray, independent: bool = False) -> float:
    """Rejection sampling is optimal: no coupling of one draft and the output accepts more often. [berdozsteering,
    section 3.1]

    Hypotheses: One draft, one position.
    Remark: Against the linear program. With several drafted positions verified jointly there is more to gain
    (sun2024block).
    """
    return -abs(_best_coupling(p, q) - float(q @ (p if independent else single_draft.accept(p, q))))


@claim("steering-rejection-rate", pair, Descent("p q"), mutants={"It is twice that.": {"share": 1.0}})
def rejection_rate(p: FloatArray, q: FloatArray, share: float = 0.5) -> float:
    """The total variation distance is the rejection rate. [berdozsteering, section 3.3; leviathan2023fast]"""
    return -abs(1.0 - float(q @ single_draft.accept(p, q)) - share * float(np.abs(p - q).sum()))


def _divergence(p: FloatArray, q: FloatArray) -> float:
    """KL(p || q)."""
    positive = p > 0
    return float(p[positive] @ np.log(p[positive] / q[positive]))


def _sharpness(p: FloatArray, q: FloatArray, pinsker: float = 1.0, huber: float = 1.0) -> float:
    """The squared rejection rate over its bound, with so many times KL/2, and 1 - exp(-KL)."""
    divergence = _divergence(p, q)
    if divergence < 1e-6:
        return 0.0  # too close for the quotient
    return float((1.0 - overlap(p, q)) ** 2 / np.minimum(pinsker * divergence / 2, huber * -np.expm1(-divergence)))


@claim(
    "steering-divergence",
    covered,
    Descent("p q"),
    tightness=_sharpness,
    mutants={
        "At most 0.95 KL/2.": lambda **laws: 1.0 - _sharpness(**laws, pinsker=0.95),
        "At most 0.95 (1 - exp(-KL)).": lambda **laws: 1.0 - _sharpness(**laws, huber=0.95),
    },
)
def divergence(p: FloatArray, q: FloatArray) -> float:
    """The divergence that is trained on bounds the rejection rate: its square is at most KL/2, and 1 - exp(-KL).
    [beside berdozsteering, section 3.3]

    Beside: steering-rejection-rate
    Remark: Pinsker, and Bretagnolle-Huber. A lower divergence need not mean more acceptance: p = (0.9, 0.1) has KL
    0.116 to (0.7, 0.3), which accepts 0.8, and 0.144 to (0.99, 0.01), which accepts 0.91.
    """
    rejected, divergence = 1.0 - overlap(p, q), _divergence(p, q)
    return float(np.minimum(divergence / 2, -np.expm1(-divergence)) - rejected**2)


def _positions(rng: np.random.Generator) -> dict[str, Any]:
    k = int(rng.integers(1, 9))
    return {"rates": rng.random(k) if rng.random() < 0.8 else np.full(k, rng.choice([0.0, 0.5, 1.0]))}


@claim("steering-block-efficiency", _positions, mutants={"At most k.": {"most": 0.0}})
def block_efficiency(rates: FloatArray, most: float = 1.0) -> float:
    """Block efficiency is the mean number of accepted tokens plus one, between 1 and k + 1. [berdozsteering, section 4,
    metrics]

    Hypotheses: Given that all before it are, the draft at position i is accepted with probability r_i.
    Remark: Over all 2^k patterns, k up to 8 as in the paper.
    Margin: Over all patterns of agreement: accepted drafts plus one, against 1 + r_1 + r_1 r_2 + ...; and the bounds.
    """
    k = rates.size
    agrees = (np.arange(1 << k)[:, None] >> np.arange(k)) & 1
    chance = np.where(agrees, rates, 1.0 - rates).prod(axis=1)
    efficiency = float(chance @ np.cumprod(agrees, axis=1).sum(axis=1)) + 1.0
    error = abs(efficiency - 1.0 - float(np.cumprod(rates).sum()))
    return float(np.min([-error, efficiency - 1.0, k + most - efficiency]))
