"""Triton kernels of the passes over the vocabulary: laws are made where they are read, and never stored.

A law comes as probabilities or as logits; `high`, `heat` and `scale` of each row tell how to read it.  All sums that
decide on a token are in units, so that the order in which programs finish does not matter.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def law_of(
    values, high, first, heat, scale, sound, row, tokens, vocab,
    LOGITS: tl.constexpr,
):  # fmt: skip
    """Probabilities of some tokens of a row, float64: even ones where the row is not sound, 0 beyond the vocabulary."""
    inside = tokens < vocab
    read = tl.load(sound + row) != 0
    known = tokens < tl.where(read, vocab, 0)
    law = tl.load(values + row.to(tl.int64) * vocab + tokens, mask=known, other=0.0).to(tl.float64)
    if LOGITS:
        warm = tl.load(heat + row)
        weight = tl.exp((law - tl.where(read, tl.load(high + row), 0.0)) / tl.where(warm > 0, warm, 1.0))
        law = tl.where(warm > 0, weight, (tokens == tl.load(first + row)).to(tl.float64))
    law = tl.where(read, law * tl.load(scale + row), 1.0 / vocab)
    return tl.where(inside, law, 0.0)


@triton.jit
def units_of(mass):
    """`fixed_point.to_units`: what is not negative is rounded down when it is converted."""
    return (mass * 4611686018427387904.0 + 0.5).to(tl.int64)


@triton.jit
def bucket_of(p, q, COUNT: tl.constexpr, BITS: tl.constexpr):
    """`buckets.bucket_of`, operation by operation."""
    ratio = tl.where(q > 0, p / tl.where(q > 0, q, 1.0), 0.0)
    low = (tl.minimum(ratio, 1.0) * (1 << BITS)).to(tl.int64)
    high = (ratio.to(tl.int64, bitcast=True) >> (52 - BITS)) - (1022 << BITS)
    bucket = tl.minimum(tl.where(ratio < 1, low, high), COUNT - 1)
    return tl.where(q > 0, bucket, COUNT)


@triton.jit
def sum_weights(values, high, heat, sums, vocab, BLOCK: tl.constexpr):
    """The softmax weights of each chunk of a row, added up by a fixed tree."""
    row, chunk = tl.program_id(0), tl.program_id(1)
    tokens = chunk * BLOCK + tl.arange(0, BLOCK)
    inside = tokens < vocab
    score = tl.load(values + row.to(tl.int64) * vocab + tokens, mask=inside, other=0.0).to(tl.float64)
    warm = tl.load(heat + row)
    most = tl.load(high + row)
    most = tl.where(tl.abs(most) < float("inf"), most, 0.0)  # the row is not sound, and what comes out is not used
    weight = tl.exp((score - most) / tl.where(warm > 0, warm, 1.0))
    tl.store(sums + row * tl.num_programs(1) + chunk, tl.sum(tl.where(inside, weight, 0.0)))


@triton.jit
def add_to_buckets(
    p, p_high, p_first, p_heat, p_scale, p_sound,
    q, q_high, q_first, q_heat, q_scale, q_sound,
    p_rows, q_rows, count, start, target, size, stride, vocab,
    LOGITS: tl.constexpr, COUNT: tl.constexpr, BITS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Histograms of p and q over the buckets, COUNT + 1 of them, in units, for pairs of rows; `stride` apart."""
    pair = tl.program_id(0).to(tl.int64)
    if pair < tl.load(count) - start:
        p_row, q_row = tl.load(p_rows + start + pair), tl.load(q_rows + start + pair)
        tokens = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
        here = law_of(p, p_high, p_first, p_heat, p_scale, p_sound, p_row, tokens, vocab, LOGITS)
        there = law_of(q, q_high, q_first, q_heat, q_scale, q_sound, q_row, tokens, vocab, LOGITS)
        bucket = bucket_of(here, there, COUNT, BITS)
        mine, theirs = units_of(here), tl.where(there > 0, tl.maximum(units_of(there), 1), 0)
        # Most tokens may be in the first bucket, the last, or none: additions to one number wait for each other.
        often = (bucket == 0) | (bucket >= COUNT - 1)
        target += pair * stride
        size += pair * stride
        tl.atomic_add(target + bucket, mine, mask=(mine > 0) & ~often, sem="relaxed")
        tl.atomic_add(size + bucket, theirs, mask=(theirs > 0) & ~often, sem="relaxed")
        for number in tl.static_range(3):
            full = 0 if number == 0 else COUNT - 2 + number
            held = bucket == full
            amount, length = tl.sum(tl.where(held, mine, 0)), tl.sum(tl.where(held, theirs, 0))
            tl.atomic_add(target + full, amount, mask=amount > 0, sem="relaxed")
            tl.atomic_add(size + full, length, mask=length > 0, sem="relaxed")
