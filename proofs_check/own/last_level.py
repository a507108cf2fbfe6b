"""Two paths of two tokens whose last tokens differ where they share the first: what verifiers may gain by that."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from otspec.laws import FloatArray
from otspec.proofs_check.claim import Claim, Mutation
from otspec.proofs_check.instances import model_laws, model_of
from otspec.proofs_check.own.labels import SOURCE, lossless

TOKENS = 3
Part = tuple[bool, tuple[int, ...]]
"""Of a set of prefixes of which none begins another: whether a first token is in it, and which tokens after it are."""
PARTS: tuple[Part, ...] = (
    (True, ()),
    *((False, some) for size in range(TOKENS + 1) for some in itertools.combinations(range(TOKENS), size)),
)


def most(target: FloatArray, draft: FloatArray, different: bool) -> float:
    """What the best verifier accepts: conditions (a) and (b) of Theorem 1 of paths, (b) for all sets of prefixes.

    Parameters
    ----------
    target, draft : ndarray, shape (1 + TOKENS, TOKENS)
        The laws of the first token, and of the second after each.
    different : bool
        Whether the second tokens are drawn without replacement where the first is shared.
    """
    sums, gain = lossless(model_of(target, draft), TOKENS, 2)
    for parts in itertools.product(PARTS, repeat=TOKENS):
        row = {(x,) if first else (x, y): 1.0 for x, (first, then) in enumerate(parts) for y in (then or (0,) * first)}
        if row:
            sums.at_most(row, 1.0 - _missed(draft, parts, different))
    return sums.most(gain)


def _missed(draft: FloatArray, parts: tuple[Part, ...], different: bool) -> float:
    """The chance that no drafted prefix is in the set."""
    first, left = draft[0], np.zeros(TOKENS)  # left: that a path through x is not in the set
    again = 0.0
    for x, (whole, then) in enumerate(parts):
        if whole:
            continue
        law = draft[1 + x]
        out = np.delete(law, then)
        left[x] = out.sum()
        both = float((out * (left[x] - out) / (1.0 - out)).sum()) if different else left[x] ** 2
        again += float(first[x]) ** 2 * (both - left[x] ** 2)
    return float((first @ left) ** 2 + again)


def repeats(draft: FloatArray) -> float:
    """The chance that two independent paths are the same."""
    return float(draft[0] ** 2 @ (draft[1:] ** 2).sum(axis=1))


def _gain(target: FloatArray, draft: FloatArray, part: float = 1.0) -> float:
    """Margin of: what different tokens gain is not negative, and at most this part of the chance of a repeat."""
    gain = most(target, draft, different=True) - most(target, draft, different=False)
    return min(gain, part * repeats(draft) - gain)


def _laws(rng: np.random.Generator) -> dict[str, Any]:
    laws = model_laws(rng, TOKENS, 2)
    return {name: 0.95 * laws[name] + 0.05 / TOKENS for name in ("target", "draft")}


CLAIMS = (
    Claim(
        "own-last-level",
        "Last tokens that differ in place of independent ones gain the best verifier something between nothing and the "
        "chance that independent ones repeat.",
        f"{SOURCE}, Theorem 3",
        _laws,
        _gain,
        tol=1e-7,
        cost=20,
        remark="Two paths of two of three tokens, over all verifiers: linear programs.",
        mutations=(Mutation("A quarter of it.", lambda **instance: _gain(**instance, part=0.25)),),
    ),
)
