"""A whole layer of a Llama over few rows on a CPU, whose weights have 8 bits: for drafters, which need not be exact.

A product of so few rows takes as long as its weights are read, and bytes are half of bfloat16.  What goes from step to
step is rounded as in `otspec.kernels.few_rows`, whose steps these are.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from otspec.jit import jit_inlined, jit_of_sums, jit_vectorised
from otspec.kernels.exponentials import exp32
from otspec.kernels.few_rows import Bits, Gains, add_and_normalise, gate, narrowed, normalise, turn, widened
from otspec.kernels.intrinsics import prefetch, wide_vectors

LEAST_OUTPUTS = 4
"""Outputs that are computed together."""
AHEAD, LINE = 8192, 64
"""Bytes of weights that are fetched ahead, at least as long as memory takes to answer; and those that come together."""
NOTHING = np.float32(-1e30)
"""The score of what is not attended to: finite, so that a row that attends to nothing has a mean."""


class ByteMatrix(NamedTuple):
    """Weights of a linear layer."""

    weights: NDArray[np.int8]
    """Shape (outputs, inputs), at least `LEAST_OUTPUTS` outputs."""
    scales: Gains
    """Shape (outputs,): what 1 stands for."""
    bias: Gains
    """Shape (outputs,)."""

    @classmethod
    def of(cls, weights: Gains, bias: Gains) -> ByteMatrix:
        """Rounded weights: the largest of every output becomes 127 or -127."""
        scales = np.maximum(np.abs(weights).max(axis=1), np.finfo(np.float32).tiny) / np.float32(127)
        return cls(np.rint(weights / scales[:, None]).astype(np.int8), scales, bias)


class ByteLayer(NamedTuple):
    """Weights of a layer."""

    before_attention: Gains
    """Shape (d,): of the norm."""
    projections: ByteMatrix
    """Queries, keys and values."""
    of_query: Gains
    """Shape (size,): of the norm of every head; (0,) if there is none."""
    of_key: Gains
    out: ByteMatrix
    before_mlp: Gains
    gate_up: ByteMatrix
    down: ByteMatrix


@jit_vectorised
def multiply(rows: Bits, matrix: ByteMatrix, into: Gains) -> None:
    """What a linear layer makes of rows; shapes (R, inputs) and (R, outputs)."""
    wide = np.zeros((len(rows) + 1, rows.shape[1]), np.float32)
    for row in range(len(rows)):
        for column in range(rows.shape[1]):
            wide[row, column] = widened(rows[row, column])
    done = 0
    while done + 4 <= len(rows):
        _four(wide[done], wide[done + 1], wide[done + 2], wide[done + 3], matrix.weights, into[done : done + 4])
        done += 4
    if done + 3 == len(rows):  # weights are read once
        spare = np.empty((4, into.shape[1]), np.float32)
        _four(wide[done], wide[done + 1], wide[done + 2], wide[done + 3], matrix.weights, spare)
        into[done:] = spare[:3]
    elif done + 2 == len(rows):
        _two(wide[done], wide[done + 1], matrix.weights, into[done:])
    elif done < len(rows):
        _one(wide[done], matrix.weights, into[done])
    for row in range(len(rows)):
        for output in range(into.shape[1]):
            into[row, output] = into[row, output] * matrix.scales[output] + matrix.bias[output]


@jit_inlined
def _fetch(weights: NDArray[np.int8], at: int, outputs: int) -> None:
    """Begin to read what lies `AHEAD` of outputs, so that no product waits for it."""
    size = weights.shape[1]
    for byte in range(at * size, (at + outputs) * size, LINE):
        prefetch(weights, byte + AHEAD)


@jit_vectorised
def _one(row: Gains, weights: NDArray[np.int8], into: Gains) -> None:
    """By four outputs; the last four may have been computed before."""
    wide_vectors()
    for first in range(0, len(weights), 4):
        at = min(first, len(weights) - 4)
        _fetch(weights, at, 4)
        a, b, c, d = np.float32(0.0), np.float32(0.0), np.float32(0.0), np.float32(0.0)
        for column in range(len(row)):
            value = row[column]
            a += value * np.float32(weights[at, column])
            b += value * np.float32(weights[at + 1, column])
            c += value * np.float32(weights[at + 2, column])
            d += value * np.float32(weights[at + 3, column])
        into[at], into[at + 1], into[at + 2], into[at + 3] = a, b, c, d


@jit_vectorised
def _two(row: Gains, other: Gains, weights: NDArray[np.int8], into: Gains) -> None:
    """By two outputs."""
    wide_vectors()
    for first in range(0, len(weights), 2):
        at = min(first, len(weights) - 2)
        _fetch(weights, at, 2)
        a, b, c, d = np.float32(0.0), np.float32(0.0), np.float32(0.0), np.float32(0.0)
        for column in range(len(row)):
            upper, lower = np.float32(weights[at, column]), np.float32(weights[at + 1, column])
            a += row[column] * upper
            b += row[column] * lower
            c += other[column] * upper
            d += other[column] * lower
        into[0, at], into[0, at + 1], into[1, at], into[1, at + 1] = a, b, c, d


@jit_vectorised
def _four(first: Gains, second: Gains, third: Gains, fourth: Gains, weights: NDArray[np.int8], into: Gains) -> None:
    """By two outputs."""
    wide_vectors()
    for start in range(0, len(weights), 2):
        at = min(start, len(weights) - 2)
        _fetch(weights, at, 2)
        a, b, c, d = np.float32(0.0), np.float32(0.0), np.float32(0.0), np.float32(0.0)
        e, f, g, h = np.float32(0.0), np.float32(0.0), np.float32(0.0), np.float32(0.0)
        for column in range(len(first)):
            upper, lower = np.float32(weights[at, column]), np.float32(weights[at + 1, column])
            a += first[column] * upper
            b += second[column] * upper
            c += third[column] * upper
            d += fourth[column] * upper
            e += first[column] * lower
            f += second[column] * lower
            g += third[column] * lower
            h += fourth[column] * lower
        into[0, at], into[1, at], into[2, at], into[3, at] = a, b, c, d
        into[0, at + 1], into[1, at + 1], into[2, at + 1], into[3, at + 1] = e, f, g, h


@jit_vectorised
def product(rows: Bits, matrix: ByteMatrix) -> Bits:
    """The same, rounded."""
    found = np.empty((len(rows), len(matrix.scales)), np.float32)
    multiply(rows, matrix, found)
    rounded = np.empty(found.shape, np.uint16)
    for row in range(len(rows)):
        for output in range(found.shape[1]):
            rounded[row, output] = narrowed(found[row, output])
    return rounded


@jit_vectorised
def layer(
    hidden: Bits, weights: ByteLayer, cosine: Bits, sine: Bits, epsilon: float, start: int, mask: Bits,
    keys: Bits, values: Bits,
) -> None:  # fmt: skip
    """A layer over few rows, in place.

    Parameters
    ----------
    hidden : shape (B * N, d)
    weights : ByteLayer
    cosine, sine : shape (B * N, size)
        Sines signed.
    epsilon : float
    start : int
        The first column of the block.
    mask : shape (B or 1, N, start + N), or (0, 0, 0) for none
        Added to scores.
    keys, values : shape (B, heads of keys, columns, size)
        Those of the block become columns `start` and on.
    """
    batch, key_heads, _, size = keys.shape
    count = len(hidden) // batch
    heads = len(weights.out.weights[0]) // size
    normed = np.empty_like(hidden)
    normalise(hidden, weights.before_attention, epsilon, normed)
    queries = np.empty((batch, key_heads, heads // key_heads * count, size), np.uint16)
    turn(
        product(normed, weights.projections), cosine, sine, weights.of_query, weights.of_key, epsilon, start,
        queries, keys, values,
    )  # fmt: skip
    attended = np.empty((len(hidden), heads * size), np.uint16)
    _attend(queries, keys, values, mask, start + count, attended)
    add_and_normalise(hidden, product(attended, weights.out), weights.before_mlp, epsilon, hidden, normed)
    gated = np.empty((batch, count, len(weights.down.weights[0])), np.uint16)
    gate(product(normed, weights.gate_up), gated)
    more = product(gated.reshape((len(hidden), -1)), weights.down)
    for row in range(len(hidden)):
        for column in range(hidden.shape[1]):
            hidden[row, column] = narrowed(widened(hidden[row, column]) + widened(more[row, column]))


@jit_vectorised
def _attend(queries: Bits, keys: Bits, values: Bits, mask: Bits, stop: int, into: Bits) -> None:
    """What queries find in the first columns, shape (B * N, heads * size); others as in `layer`."""
    batch, key_heads, per_head, size = queries.shape
    count = len(into) // batch
    group = per_head // count
    query, found, shares = np.empty(size, np.float32), np.empty(size, np.float32), np.empty(stop, np.float32)
    for text in range(batch):
        for head in range(key_heads):
            for member in range(per_head):
                place = member % count
                for entry in range(size):
                    query[entry] = widened(queries[text, head, member, entry]) / np.sqrt(np.float32(size))
                most = NOTHING
                for column in range(stop):
                    score = _dot(query, keys[text, head, column])
                    if len(mask):
                        score = max(score + widened(mask[text % len(mask), place, column]), NOTHING)
                    shares[column] = score
                    most = max(most, score)
                total = np.float32(0.0)
                for column in range(stop):
                    shares[column] = exp32(shares[column] - most)
                    total += shares[column]
                found[:] = 0
                for column in range(stop):
                    for entry in range(size):
                        found[entry] += shares[column] * widened(values[text, head, column, entry])
                at = (head * group + member // count) * size
                for entry in range(size):
                    into[text * count + place, at + entry] = narrowed(found[entry] / total)


@jit_of_sums
def _dot(query: Gains, key: Bits) -> np.float32:
    total = np.float32(0.0)
    for entry in range(len(query)):
        total += query[entry] * widened(key[entry])
    return total
