"""Speculative sampling with one draft per position, as exact laws [leviathan2023fast; chen2023accelerating]."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from otspec.laws import FloatArray, IntArray


def overlap(p: FloatArray, q: FloatArray) -> float:
    """Sum of min(p, q)."""
    return float(np.minimum(p, q).sum())


def accept(p: FloatArray, q: FloatArray) -> FloatArray:
    """P(a draft is accepted), by its token: min(1, p/q); 1 where q never drafts."""
    return np.minimum(1.0, np.divide(p, q, out=np.ones_like(p), where=q > 0))


def residual(p: FloatArray, q: FloatArray) -> FloatArray:
    """The law of what replaces a rejected draft, max(0, p - q) normalised; p itself where nothing is left of it."""
    rest = np.maximum(0.0, p - q)
    total = rest.sum()
    return rest / total if total > 0 else p


def restricted(law: FloatArray, tokens: IntArray) -> FloatArray:
    """A law on some of its tokens, normalised; uniform on them where it has nothing there."""
    inside, share = np.zeros_like(law), law[tokens]
    inside[tokens] = share / share.sum() if share.sum() > 0 else 1.0 / tokens.size
    return inside


def output(p: FloatArray, q: FloatArray, tested: FloatArray | None = None) -> FloatArray:
    """Law of the token put out at a drafted position: drafts from q, verified as if they came from `tested`."""
    tested = q if tested is None else tested
    accepted = q * accept(p, tested)
    return accepted + (1.0 - accepted.sum()) * residual(p, tested)


def child(node: int, token: int, vocab: int) -> int:
    """The number of a prefix and one more token, where 0 is the empty prefix and prefixes are numbered by length."""
    return node * vocab + 1 + token


def prefixes(vocab: int, length: int) -> int:
    """How many prefixes have at most `length` tokens."""
    return sum(vocab**size for size in range(length + 1))


def along(tokens: Sequence[int], vocab: int) -> list[int]:
    """The numbers of the prefixes of a text, from the empty one to all of it."""
    return list(accumulate(tokens, lambda node, token: child(node, token, vocab), initial=0))


def text(p: FloatArray, length: int, node: int = 0) -> FloatArray:
    """Law of the target's next `length` tokens after a prefix, flat; p holds its laws, one row per prefix."""
    if length == 0:
        return np.ones(1)
    vocab = p.shape[1]
    return np.concatenate([p[node, x] * text(p, length - 1, child(node, x, vocab)) for x in range(vocab)])


def block(p: FloatArray, q: FloatArray, gamma: int, node: int = 0) -> FloatArray:
    """Law of gamma + 1 tokens: one block of gamma drafts, then the target's own; p and q hold one row per prefix."""
    if gamma == 0:
        return p[node]
    vocab = p.shape[1]
    accepted = q[node] * accept(p[node], q[node])
    replaced = (1.0 - accepted.sum()) * residual(p[node], q[node])
    return np.concatenate(
        [
            accepted[x] * block(p, q, gamma - 1, child(node, x, vocab))
            + replaced[x] * text(p, gamma, child(node, x, vocab))
            for x in range(vocab)
        ]
    )


def tokens(alpha: float, gamma: int) -> float:
    """Mean tokens per block of gamma independent drafts, each accepted with probability alpha: a sum of powers."""
    return float((alpha ** np.arange(gamma + 1)).sum())


def tokens_quotient(alpha: float, gamma: int) -> float:
    """`tokens` as printed [leviathan2023fast, eq. (1)]: a quotient, 0/0 at alpha = 1."""
    with np.errstate(invalid="ignore"):
        return float(np.divide(1.0 - alpha ** (gamma + 1), 1.0 - alpha))


def blocks(alpha: float, gamma: int, length: int) -> float:
    """Mean number of blocks until `length` tokens are out, by recursion on what is left."""
    out = np.append((1.0 - alpha) * alpha ** np.arange(gamma), alpha**gamma)  # P(1, ..., gamma + 1 tokens)
    mean = np.zeros(gamma + length + 1)  # mean[gamma + left]; 0 where nothing is left
    for left in range(1, length + 1):
        mean[gamma + left] = 1.0 + out @ mean[left - 1 : gamma + left][::-1]
    return float(mean[-1])
