"""What a layer of a Llama does with few rows beside its products, on a CPU: rows of bfloat16, by vector instructions.

What is computed is float32, and rounded once where it is written.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from otspec.jit import jit_inlined, jit_of_sums, jit_vectorised
from otspec.kernels.exponentials import exp32

Bits = NDArray[np.uint16]
"""bfloat16, a type that numpy lacks."""
Gains = NDArray[np.float32]
"""Weights of norms."""


@jit_vectorised
def normalise(hidden: Bits, weights: Gains, epsilon: float, into: Bits) -> None:
    """Rows of root mean square 1, times weights; shapes (R, d), (d,) and (R, d)."""
    for row in range(len(hidden)):
        scale = scale_of(hidden[row], epsilon)
        for column in range(hidden.shape[1]):
            into[row, column] = narrowed(widened(hidden[row, column]) * scale * weights[column])


@jit_vectorised
def add_and_normalise(before: Bits, more: Bits, weights: Gains, epsilon: float, hidden: Bits, into: Bits) -> None:
    """What goes around the layers and what is added to it, and the norm of that; all of shape (R, d) but weights."""
    for row in range(len(before)):
        for column in range(before.shape[1]):
            hidden[row, column] = narrowed(widened(before[row, column]) + widened(more[row, column]))
    normalise(hidden, weights, epsilon, into)


@jit_vectorised
def gate(projected: Bits, into: Bits) -> None:
    """An MLP's gates, through a SiLU, times what they let through: shapes (R, 2 f) and (B, N, f)."""
    width = projected.shape[1] // 2
    gated = into.reshape((len(projected), width))
    for row in range(len(projected)):
        for column in range(width):
            value = widened(projected[row, column])
            passed = value / (np.float32(1.0) + exp32(-value))
            gated[row, column] = narrowed(passed * widened(projected[row, width + column]))


@jit_vectorised
def turn(
    projected: Bits, cosine: Bits, sine: Bits, of_query: Gains, of_key: Gains, epsilon: float, start: int,
    queries: Bits, keys: Bits, values: Bits,
) -> None:  # fmt: skip
    """Queries and keys, normed if they have norms, turned by the angles of their rows; the cache is written.

    Parameters
    ----------
    projected : shape (B * N, (heads + 2 heads of keys) * size)
        Queries, keys and values.
    cosine, sine : shape (B * N, size)
        Sines signed.
    of_query, of_key : shape (size,) or (0,)
    epsilon : float
    start : int
        The first column to write.
    queries : shape (B, heads of keys, group * N, size)
    keys, values : shape (B, heads of keys, columns, size)
    """
    batch, key_heads, per_head, size = queries.shape
    count = len(projected) // batch
    group = per_head // count
    heads = key_heads * group
    for text in range(batch):
        for place in range(count):
            row = text * count + place
            for head in range(heads):
                _turned(
                    projected[row, head * size : (head + 1) * size], cosine[row], sine[row], of_query, epsilon,
                    queries[text, head // group, head % group * count + place],
                )  # fmt: skip
            for head in range(key_heads):
                at = (heads + head) * size
                _turned(
                    projected[row, at : at + size], cosine[row], sine[row], of_key, epsilon,
                    keys[text, head, start + place],
                )  # fmt: skip
                at += key_heads * size
                values[text, head, start + place] = projected[row, at : at + size]


@jit_inlined
def _turned(head: Bits, cosine: Bits, sine: Bits, weights: Gains, epsilon: float, into: Bits) -> None:
    half = len(head) // 2
    scale = scale_of(head, epsilon) if len(weights) else np.float32(1.0)
    for low in range(half):
        high = low + half
        a, b = widened(head[low]) * scale, widened(head[high]) * scale
        if len(weights):
            a, b = a * weights[low], b * weights[high]
        into[low] = narrowed(a * widened(cosine[low]) + b * widened(sine[low]))
        into[high] = narrowed(b * widened(cosine[high]) + a * widened(sine[high]))


@jit_of_sums
def scale_of(row: Bits, epsilon: float) -> np.float32:
    """What a norm multiplies a row by."""
    total = np.float32(0.0)
    for column in range(len(row)):
        total += widened(row[column]) ** 2
    return np.float32(1.0 / np.sqrt(total / np.float32(len(row)) + epsilon))


@jit_inlined
def widened(bits: np.uint16) -> np.float32:
    """The number of which these are the upper bits."""
    return np.uint32(np.uint32(bits) << 16).view(np.float32)


@jit_inlined
def narrowed(value: np.float32) -> np.uint16:
    """The bits of the nearest number in bfloat16, of two the even one."""
    bits = np.float32(value).view(np.uint32)
    return np.uint16((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16)
