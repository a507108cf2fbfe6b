"""Triton's kernels that read laws: made where they are read, never stored; their totals; and what is drawn from them.

A law comes as probabilities or as logits; the fields of `rows.Reading` define how to read it.  All sums that decide on
a token are in units, so that the order in which programs finish does not matter.

In all modules of kernels, a comment beside arguments gives the shape of what they point to, or of what lanes hold.
Tensors have R rows of V tokens; programs hold LANES, ROWS or BLOCK numbers at once.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from otspec.verification.tensors.rows import BLOCK, DRIFT, EXACT, Reading, Rows, lanes, read_scaled


@triton.jit
def law_of(
    law,  # `Rows`
    row, tokens,  # (LANES,), or scalars
    vocab,  # scalar
    LOGITS: tl.constexpr,
):  # fmt: skip
    """Probabilities of some tokens of a row, float64: uniform where the row is not valid, 0 beyond the vocabulary."""
    inside = tokens < vocab
    read = tl.load(law.valid + row) != 0
    known = tokens < tl.where(read, vocab, 0)
    found = tl.load(law.read.entries + row.to(tl.int64) * vocab + tokens, mask=known, other=0.0).to(tl.float64)
    if LOGITS:
        warm = tl.load(law.read.heat + row)
        weight = tl.exp((found - tl.where(read, tl.load(law.read.high + row), 0.0)) / tl.where(warm > 0, warm, 1.0))
        found = tl.where(warm > 0, weight, (tokens == tl.load(law.read.first + row)).to(tl.float64))
    found = tl.where(read, found * tl.load(law.read.scale + row), 1.0 / vocab)
    return tl.where(inside, found, 0.0)


@triton.jit
def units_of(mass):  # (LANES,)
    """`fixed_point.to_units`: what is not negative is rounded down when it is converted."""
    return (mass * 4611686018427387904.0 + 0.5).to(tl.int64)


@triton.jit
def chunk_of(
    sums, lanes,  # (LANES,): units of each chunk of a row, and 0, 1, ...
    total, uniform, chunks,  # scalars: the sum of these, a number in [0, 1), how many they are
):  # fmt: skip
    """The chunk that a draw falls into, and how many units beyond its begin."""
    point = (uniform * total.to(tl.float64)).to(tl.int64)
    point = tl.minimum(point, total - 1)
    passed = (tl.cumsum(sums, 0) <= point) & (lanes < chunks)
    chunk = tl.minimum(tl.sum(passed.to(tl.int64)), chunks - 1)
    point -= tl.sum(tl.where(lanes < chunk, sums, 0))
    return chunk, point


@triton.jit
def drawn_from(
    units,  # (BLOCK,): of the tokens of a chunk
    begin, point,  # scalars: the first of these tokens, the units to pass
):  # fmt: skip
    """The token at which a draw stops in its chunk; the one after the chunk if its units do not suffice."""
    passed = tl.cumsum(units, 0) <= point
    return begin + tl.sum(passed.to(tl.int64))


@triton.jit
def sum_weights(
    entries,  # (R, V)
    high, heat,  # (R,)
    sums,  # (R, chunks)
    vocab,  # scalar
    BLOCK: tl.constexpr,
):  # fmt: skip
    """The softmax weights of each chunk of a row, added up by a fixed tree."""
    row, chunk = tl.program_id(0), tl.program_id(1)
    tokens = chunk * BLOCK + tl.arange(0, BLOCK)
    inside = tokens < vocab
    score = tl.load(entries + row.to(tl.int64) * vocab + tokens, mask=inside, other=0.0).to(tl.float64)
    warm = tl.load(heat + row)
    most = tl.load(high + row)
    most = tl.where(tl.abs(most) < float("inf"), most, 0.0)  # the row is not valid, and what comes out is not used
    weight = tl.exp((score - most) / tl.where(warm > 0, warm, 1.0))
    tl.store(sums + row * tl.num_programs(1) + chunk, tl.sum(tl.where(inside, weight, 0.0)))


def read_logits(logits: Tensor, temperature: Tensor) -> Reading:
    """Rows of logits, shape (R, V), at temperatures of shape (R,), in float64."""
    logits = logits.contiguous()
    top = logits.max(dim=1)
    high = top.values.double()
    rows, vocab = logits.shape
    chunks = -(-vocab // BLOCK)
    sums = torch.empty((rows, chunks), dtype=torch.float64, device=logits.device)
    sum_weights[(rows, chunks)](logits, high, temperature, sums, vocab, BLOCK=BLOCK, **EXACT)
    return Reading(logits, high, top.indices, temperature, torch.where(temperature > 0, 1.0 / sums.sum(dim=1), 1.0))


@triton.jit
def sum_law(
    entries,  # (R, V)
    sums,  # (R, chunks)
    vocab,  # scalar
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Total of each chunk of a row, float64; NaN where a number is negative or none."""
    row, chunk = tl.program_id(0), tl.program_id(1)
    tokens = chunk * BLOCK + tl.arange(0, BLOCK)
    law = tl.load(entries + row.to(tl.int64) * vocab + tokens, mask=tokens < vocab, other=0.0).to(tl.float64)
    wrong = tl.max(tl.where(law >= 0, 0, 1))
    tl.store(sums + row * tl.num_programs(1) + chunk, tl.where(wrong > 0, float("nan"), tl.sum(law)))


@triton.jit
def finish_totals(
    sums,  # (R, chunks)
    scales, valid,  # (R,)
    chunks,  # scalar
    DRIFT: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """Whether each row is a law, by the totals of its chunks, and what its numbers are multiplied by to add up to 1."""
    row = tl.program_id(0).to(tl.int64)
    lanes = tl.arange(0, LANES)
    total = tl.sum(tl.load(sums + row * chunks + lanes, mask=lanes < chunks, other=0.0))
    right = tl.abs(total - 1.0) <= DRIFT
    tl.store(scales + row, 1.0 / tl.where(right, total, 1.0))
    tl.store(valid + row, right.to(tl.int8))


def totals_of(law: Tensor) -> Tensor:
    """Sums of rows, float64, shape (R, V) to (R,), in one pass; NaN where a row holds NaN or a negative number."""
    return _totals_of_chunks(law.contiguous()).sum(dim=1)


def checked_rows(law: Tensor) -> Rows:
    """Rows of probabilities, shape (R, V).

    Valid are those without negative numbers and NaN whose total is 1 up to what laws of their type may be off.
    """
    law = law.contiguous()
    sums = _totals_of_chunks(law)
    rows, chunks = sums.shape
    scale = torch.empty(rows, dtype=torch.float64, device=law.device)
    valid = torch.empty(rows, dtype=torch.int8, device=law.device)
    finish_totals[(rows,)](sums, scale, valid, chunks, DRIFT=DRIFT[law.dtype], LANES=lanes(chunks), **EXACT)
    return Rows(read_scaled(law, scale), valid.view(torch.bool))


def _totals_of_chunks(law: Tensor) -> Tensor:
    rows, vocab = law.shape
    chunks = -(-vocab // BLOCK)
    sums = torch.empty((rows, chunks), dtype=torch.float64, device=law.device)
    sum_law[(rows, chunks)](law, sums, vocab, BLOCK=BLOCK, **EXACT)
    return sums
