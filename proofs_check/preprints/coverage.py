"""When is a draft accepted? [sharma2026when]: the target's likeliest m tokens, and trees of a draft law's."""

from __future__ import annotations

from typing import Any

import numpy as np

from otspec.laws import FloatArray, IntArray
from otspec.proofs_check.claims import Unchecked, inequality
from otspec.proofs_check.preprints.acceptance import ABSTRACT, BOTH, with_m
from otspec.proofs_check.preprints.levelling import apart, compared, distance, levelled, of_even

LIKELY, LEAST = 0.5, 1e-4
"""How often laws are drawn near those that attain a bound, and how much of a random law they have then."""


def _near_even(rng: np.random.Generator) -> dict[str, Any]:
    """Laws as `with_m` has them; in half of them p is near m even tokens and one below, the likeliest of q."""
    drawn = with_m(rng)
    if rng.random() > LIKELY:
        return drawn
    m, size = drawn["m"], drawn["p"].size
    below = float(rng.random() ** 2) / m
    even = np.zeros(size)
    even[:m], even[m] = (1 + below) / (m + 1), (1 - m * below) / (m + 1)
    drafted = np.zeros(size)
    drafted[: m + 1] = 1 / (m + 1)
    drafted[m] += LEAST
    return {**drawn, "p": (1 - LEAST) * even + LEAST * drawn["p"], "q": drafted / drafted.sum()}


@inequality("acceptance-top-m", _near_even, BOTH, tol=1e-9, mutants={"1.05 times as far.": {"left": 1.05}})
def top_m(p: FloatArray, q: FloatArray, way: str, m: int) -> tuple[float, float]:
    """A draft below the mean of p's m likeliest tokens by d, and none of them, is from a law at least as far as the
    uniform one is from m tokens of (1 + d) / (m + 1) and one of (1 - m d) / (m + 1). [sharma2026when
    (arXiv:2606.30265), abstract; docs/greedy_acceptance.md, Theorem 2]

    Margin: Of a draft outside the target's top m, by how far it is below the mean of these.
    """
    top, drafted = np.argsort(-p, kind="stable")[:m], int(q.argmax())
    if drafted in top:
        return 0.0, 0.0
    gap = float(p[top].mean() - p[drafted])
    return compared(p, of_even(((1 + gap) / (m + 1), max(1 - m * gap, 0.0) / (m + 1)), (m, 1), way), apart(p, q, way))


def _uncovered(q: FloatArray, top: int, m: int) -> tuple[FloatArray, IntArray]:
    """A draft law without a token among its likeliest m, made of q by a swap where it has to be, and these m."""
    order, moved = np.argsort(-q, kind="stable"), q.copy()
    if top in order[:m]:
        moved[[top, order[m]]] = q[[order[m], top]]
        order[[int(np.flatnonzero(order == top)[0]), m]] = order[m], top
    return moved, order[:m]


@inequality(
    "acceptance-tree",
    with_m,
    BOTH,
    tol=1e-9,
    mutants={"1.05 times as far.": {"left": 1.05}, "With m + 1 next ones.": {"more": 1}},
)
def tree(p: FloatArray, q: FloatArray, way: str, m: int, more: int = 0) -> tuple[float, float]:
    """No draft law whose likeliest m tokens lack the likeliest of p is nearer to p than the one that levels it with
    those of the m next ones that are below. [sharma2026when (arXiv:2606.30265), abstract; docs/greedy_acceptance.md,
    Theorem 3]

    Remark: In both directions. m = 1 is strict greedy decoding.
    Margin: The likeliest token brought down to the m next ones, or `more`, and a q that does not cover it.
    """
    order = np.argsort(-p, kind="stable")
    top = int(order[0])
    nearest = levelled(p, top, order[1 : m + 1 + more], way, rises=False)
    return compared(p, distance(p, nearest, way), apart(p, _uncovered(q, top, m)[0], way))


@inequality(
    "acceptance-tree-margin",
    with_m,
    BOTH,
    tol=1e-9,
    mutants={"1.05 times as far.": {"left": 1.05}, "Of m + 1 drafted ones.": {"more": 1}},
)
def tree_margin(p: FloatArray, q: FloatArray, way: str, m: int, more: int = 0) -> tuple[float, float]:
    """If p's likeliest token is above the mean of the m drafted ones by d, the draft law is at least as far as the
    uniform one is from one token of (1 + m d) / (m + 1) and m of (1 - d) / (m + 1). [sharma2026when (arXiv:2606.30265),
    abstract; docs/greedy_acceptance.md, Theorem 3]

    Remark: So d = p1 - p2 certifies that the token is covered: about m d^2 / 2, m times what one draft requires.
    Margin: By how far the likeliest token is above the mean of the m that are drafted.
    """
    top = int(p.argmax())
    moved, drafted = _uncovered(q, top, m)
    gap, m = float(p[top] - p[drafted].mean()), m + more
    return compared(p, of_even(((1 + m * gap) / (m + 1), (1 - gap) / (m + 1)), (1, m), way), apart(p, moved, way))


UNCHECKED = (
    Unchecked(
        "The paper's own formulas; on Qwen3 models relaxed rules and trees certify many more steps.",
        ABSTRACT,
        "The abstract promises exact divergences and sharp margins, which are derived and checked here; what "
        "the paper prints was not at hand.  The second is a measurement.",
    ),
)
