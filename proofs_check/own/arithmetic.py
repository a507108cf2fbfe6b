"""Arithmetic sampling: K codewords from one random number, and what a pick among them can do (docs/paths.md)."""

from __future__ import annotations

from typing import Any

import numpy as np

from otspec.laws import FloatArray, IntArray
from otspec.proofs_check.claim import Claim, Mutation
from otspec.proofs_check.instances import law
from otspec.proofs_check.oracles import Program

SOURCE = "otspec, docs/paths.md, Theorem 9"
SOLVED = 1e-9
"""Programs of a few dozen numbers, of which HiGHS is asked for 1e-10; with the 1e-7 of its default they can be off by
7e-9."""


def _cells(cuts: FloatArray, count: int) -> tuple[FloatArray, IntArray]:
    """Theta in cells on which all K codewords stay between the same cuts: lengths, (m,), and intervals, (m, K)."""
    turns = np.unique(np.concatenate(([0.0, 1.0], (cuts * count) % 1.0)))
    length = np.diff(turns)
    middle = turns[:-1] + 0.5 * length
    return length, np.searchsorted(cuts, (middle[:, None] + np.arange(count)) / count, side="right")


def _cuts(q: FloatArray) -> FloatArray:
    """Inner ends of the intervals of leaves."""
    return np.cumsum(q)[:-1]


def _meets(q: FloatArray, count: int, order: IntArray) -> FloatArray:
    """P(some codeword is one of the first 0, 1, ..., V leaves of an order): lengths of unions of arcs of a circle."""
    ends = np.cumsum(q) * count
    starts = ends - q * count
    hit, arcs = [0.0], []
    for leaf in order.tolist():
        low, size = starts[leaf] % 1.0, min(ends[leaf] - starts[leaf], 1.0)
        arcs += [(low, min(low + size, 1.0)), (0.0, low + size - 1.0)]
        reached = covered = 0.0
        for low, high in sorted(arcs):
            covered += max(high - max(low, reached), 0.0)
            reached = max(reached, high)
        hit.append(covered)
    return np.array(hit)


def _largest(gain: FloatArray, turns: FloatArray, count: int) -> float:
    """Largest gain of w >= 0 whose sums over the rows of turns are K; nan, a contradiction, if HiGHS finds none."""
    return Program(gain, equal=(turns, np.full(len(turns), float(count)))).solve()[0]


def _picks(q: FloatArray, score: FloatArray, count: int, on_average: bool = False) -> float:
    """Largest score of a g with g(A) <= f(A), by an order, and that of a density w, by a linear program."""
    order = np.argsort(-score, kind="stable")
    by_order = float(np.diff(_meets(q, count, order)) @ score[order])
    length, leaf = _cells(_cuts(q), count)
    turns = np.repeat(length[None] if on_average else np.eye(length.size), count, axis=1)
    gain = (score[leaf] * length[:, None] / count).ravel()
    return -abs(_largest(gain, turns, count) - by_order)


def _arithmetic(rng: np.random.Generator) -> dict[str, Any]:
    vocab = int(rng.integers(2, 8))
    return {"q": law(rng, vocab), "score": rng.normal(size=vocab), "count": int(rng.integers(2, 5))}


def _blind(q: FloatArray, after: FloatArray, prefix: int, count: int) -> float:
    """How far g(prefix x) can move when the target's laws change at a prefix alone, over all densities and all x."""
    ends = np.concatenate(([0.0], np.cumsum(q)))
    inside = ends[prefix] + q[prefix] * np.cumsum(after)[:-1]
    cuts = np.sort(np.concatenate((ends[1:-1], inside)))
    length, leaf = _cells(cuts, count)
    ours = (leaf >= prefix) & (leaf < prefix + after.size)
    # Variables: w of the one model everywhere, then of the other where it may differ.
    first = np.arange(leaf.size).reshape(leaf.shape)
    second = first.copy()
    second[ours] = leaf.size + np.arange(ours.sum())
    turns = np.zeros((2 * length.size, leaf.size + ours.sum()))
    np.put_along_axis(turns, np.concatenate((first, second)), 1.0, axis=1)
    moves = []
    for token in range(after.size):
        gain = np.zeros(turns.shape[1])
        at = leaf == prefix + token
        weight = np.broadcast_to(length[:, None] / count, leaf.shape)[at]
        np.add.at(gain, second[at], weight)
        np.add.at(gain, first[at], -weight)
        moves.append(_largest(gain, turns, count))  # with the models exchanged it moves as far the other way
    return -float(np.max(moves))


def _narrow(rng: np.random.Generator) -> dict[str, Any]:
    count = int(rng.integers(2, 5))
    q = law(rng, int(rng.integers(count, count + 4)))
    return {
        "q": q,
        "after": law(rng, int(rng.integers(2, 4))),
        "prefix": int(q.argmin()),  # at most 1/V, and V >= K
        "count": count,
    }


CLAIMS = (
    Claim(
        "own-arithmetic-picks",
        "g(A) <= P(some of K arithmetic codewords is in A) for all A if and only if g is the integral of some w >= 0 "
        "whose sum over the points (theta + i) / K is K for every theta.",
        SOURCE,
        _arithmetic,
        _picks,
        tol=SOLVED,
        cost=30,
        remark="The two sets have the same largest score in random directions, the one found by a program, to 1e-9.",
        mutations=(
            Mutation("Whose sum is K on average over theta.", lambda **instance: _picks(**instance, on_average=True)),
        ),
    ),
    Claim(
        "own-arithmetic-blind",
        "If K q(v) <= 1, no w that depends on the target's laws along each leaf only lets g(vx) depend on those at v.",
        SOURCE,
        _narrow,
        _blind,
        tol=SOLVED,
        cost=60,
        remark="The largest change of g(vx) over all pairs of such w, by programs, to 1e-9.",
        mutations=(
            Mutation("Whatever q(v).", lambda q, after, prefix, count: _blind(q, after, int(q.argmax()), count)),
        ),
    ),
)
