"""Triton kernels of block verification: what a path needs of its laws, in two passes over them.

Laws are rows of tensors, made where they are read (`kernels.law_of`); paths say which rows are theirs.  The law that a
token has is its draft law, times a factor of the token's group where there are factors (`sharing.group`), or all on
the token itself where nothing was drawn.
"""

from __future__ import annotations

import triton
import triton.language as tl

from otspec.verification.rules.groups.kernels import group_of
from otspec.verification.tensors.reading_kernels import law_of, units_of


@triton.jit
def sum_law(values, sums, vocab, BLOCK: tl.constexpr):
    """Total of each chunk of a row, shape (R, chunks), float64; NaN where a number is negative or none."""
    row, chunk = tl.program_id(0), tl.program_id(1)
    tokens = chunk * BLOCK + tl.arange(0, BLOCK)
    law = tl.load(values + row.to(tl.int64) * vocab + tokens, mask=tokens < vocab, other=0.0).to(tl.float64)
    wrong = tl.max(tl.where(law >= 0, 0, 1))
    tl.store(sums + row * tl.num_programs(1) + chunk, tl.where(wrong > 0, float("nan"), tl.sum(law)))


@triton.jit
def settle_totals(sums, scales, sound, chunks, DRIFT: tl.constexpr, LANES: tl.constexpr):
    """Whether each row is a law, by the totals of its chunks, and what its numbers are multiplied by to add up to 1."""
    row = tl.program_id(0).to(tl.int64)
    lanes = tl.arange(0, LANES)
    total = tl.sum(tl.load(sums + row * chunks + lanes, mask=lanes < chunks, other=0.0))
    right = tl.abs(total - 1.0) <= DRIFT
    tl.store(scales + row, 1.0 / tl.where(right, total, 1.0))
    tl.store(sound + row, right.to(tl.int8))


@triton.jit
def given_law(
    p, p_row, q, q_high, q_first, q_heat, q_scale, q_sound, q_row,
    factor, place, drafted, tokens, vocab,
    POINT: tl.constexpr, FACTOR: tl.constexpr, GROUPS: tl.constexpr, PIECES: tl.constexpr,
    RARE: tl.constexpr, LESS: tl.constexpr, MORE: tl.constexpr,
):  # fmt: skip
    """The law that a token of the path has, at some tokens."""
    if POINT:
        law = (tokens == drafted).to(tl.float64)
    else:
        law = law_of(q, q_high, q_first, q_heat, q_scale, q_sound, q_row, tokens, vocab, False)
        if FACTOR:
            group = group_of(p, p_row, q, q_row, tokens, vocab, GROUPS, PIECES, RARE, LESS, MORE)
            law = law * tl.load(factor + place * (GROUPS + 1) + group)
    return law


@triton.jit
def weigh(
    p, p_high, p_first, p_heat, p_scale, p_sound,
    q, q_high, q_first, q_heat, q_scale, q_sound,
    factor, p_rows, q_rows, places, drafts, lengths, weights, vocab,
    LOGITS: tl.constexpr, POINT: tl.constexpr, FACTOR: tl.constexpr, GROUPS: tl.constexpr,
    PIECES: tl.constexpr, RARE: tl.constexpr, LESS: tl.constexpr, MORE: tl.constexpr, LEVELS: tl.constexpr,
    LANES: tl.constexpr,
):  # fmt: skip
    """The weights of block verification after 0 to L tokens of each path, shape (B, L + 1)."""
    path = tl.program_id(0)
    lanes = tl.arange(0, LANES)
    level = tl.minimum(lanes, LEVELS - 1)
    drafted = tl.load(drafts + path * LEVELS + level)
    known = tl.minimum(tl.maximum(drafted, 0), vocab - 1)
    p_row = tl.load(p_rows + path * (LEVELS + 1) + level)
    q_row = tl.load(q_rows + path * LEVELS + level)
    here = law_of(p, p_high, p_first, p_heat, p_scale, p_sound, p_row, known, vocab, LOGITS)
    there = given_law(
        p, p_row, q, q_high, q_first, q_heat, q_scale, q_sound, q_row,
        factor, tl.load(places + path * LEVELS + level), drafted, known, vocab,
        POINT, FACTOR, GROUPS, PIECES, RARE, LESS, MORE,
    )  # fmt: skip
    possible = (drafted == known) & (there > 0) & (lanes < tl.load(lengths + path))
    weight = tl.full((), 1.0, tl.float64)
    tl.store(weights + path * (LEVELS + 1), weight)
    for i in range(LEVELS):
        mine = lanes == i
        above, below = tl.sum(tl.where(mine, here, 0.0)), tl.sum(tl.where(mine, there, 0.0))
        known_here = tl.sum((mine & possible).to(tl.int32)) > 0
        weight = tl.where(known_here, tl.minimum(weight * above / tl.where(known_here, below, 1.0), 1.0), 0.0)
        tl.store(weights + path * (LEVELS + 1) + i + 1, weight)


@triton.jit
def step_of(p_rows, q_rows, places, drafts, weights, path, level, LEVELS: tl.constexpr):
    """What `rest_at` has to know after so many tokens of a path; of the next one anything after all of them."""
    last = path * LEVELS + tl.minimum(level, LEVELS - 1)
    at = path * (LEVELS + 1) + level
    p_row, weight = tl.load(p_rows + at), tl.load(weights + at)
    return p_row, tl.load(q_rows + last), tl.load(places + last), tl.load(drafts + last), weight


@triton.jit
def rest_at(
    p, p_high, p_first, p_heat, p_scale, p_sound,
    q, q_high, q_first, q_heat, q_scale, q_sound,
    factor, p_row, q_row, place, drafted, weight, ended, tokens, vocab,
    LOGITS: tl.constexpr, POINT: tl.constexpr, FACTOR: tl.constexpr, GROUPS: tl.constexpr,
    PIECES: tl.constexpr, RARE: tl.constexpr, LESS: tl.constexpr, MORE: tl.constexpr,
):  # fmt: skip
    """(w p - g)+ after so many tokens of a path, p after all of them; and p: at some tokens, in units."""
    here = law_of(p, p_high, p_first, p_heat, p_scale, p_sound, p_row, tokens, vocab, LOGITS)
    there = given_law(
        p, p_row, q, q_high, q_first, q_heat, q_scale, q_sound, q_row, factor, place, drafted, tokens, vocab,
        POINT, FACTOR, GROUPS, PIECES, RARE, LESS, MORE,
    )  # fmt: skip
    rest = tl.where(ended, here, tl.maximum(weight * here - there, 0.0))
    return units_of(rest), units_of(here)


@triton.jit
def sum_rest_along(
    p, p_high, p_first, p_heat, p_scale, p_sound,
    q, q_high, q_first, q_heat, q_scale, q_sound,
    factor, p_rows, q_rows, places, drafts, lengths, weights, rest, whole, vocab,
    LOGITS: tl.constexpr, POINT: tl.constexpr, FACTOR: tl.constexpr, GROUPS: tl.constexpr,
    PIECES: tl.constexpr, RARE: tl.constexpr, LESS: tl.constexpr, MORE: tl.constexpr, LEVELS: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Sums of `rest_at` over each chunk of each level of a path, shape (B, L + 1, chunks); 0 beyond its end."""
    place, chunk = tl.program_id(0), tl.program_id(1)
    path, level = place // (LEVELS + 1), place % (LEVELS + 1)
    at = place * tl.num_programs(1) + chunk
    length = tl.load(lengths + path)
    if level <= length:
        p_row, q_row, factors, drafted, weight = step_of(p_rows, q_rows, places, drafts, weights, path, level, LEVELS)
        tokens = chunk * BLOCK + tl.arange(0, BLOCK)
        left, mine = rest_at(
            p, p_high, p_first, p_heat, p_scale, p_sound, q, q_high, q_first, q_heat, q_scale, q_sound,
            factor, p_row, q_row, factors, drafted, weight, level >= length, tokens, vocab,
            LOGITS, POINT, FACTOR, GROUPS, PIECES, RARE, LESS, MORE,
        )  # fmt: skip
        tl.store(rest + at, tl.sum(left))
        tl.store(whole + at, tl.sum(mine))
    else:
        nothing = tl.zeros((), dtype=tl.int64)
        tl.store(rest + at, nothing)
        tl.store(whole + at, nothing)


@triton.jit
def later(level, left, other, other_left):
    """Of two levels the later one, and what is left there."""
    return tl.where(other > level, other, level), tl.where(other > level, other_left, left)


@triton.jit
def counted(count, most, other, other_most):
    """How many there are, and the largest."""
    return count + other, tl.maximum(most, other_most)


@triton.jit
def settle(
    p, p_high, p_first, p_heat, p_scale, p_sound,
    q, q_high, q_first, q_heat, q_scale, q_sound,
    factor, p_rows, q_rows, places, drafts, lengths, weights, rest, whole, uniforms, accepted, token, vocab, chunks,
    stride, step, last,
    LOGITS: tl.constexpr, POINT: tl.constexpr, FACTOR: tl.constexpr, GROUPS: tl.constexpr,
    PIECES: tl.constexpr, RARE: tl.constexpr, LESS: tl.constexpr, MORE: tl.constexpr, LEVELS: tl.constexpr,
    BLOCK: tl.constexpr, LANES: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """How many tokens of a path are accepted, and the token after them.

    Paths have their uniforms `stride` apart, levels `step`, and the token after them the one at `last`.  ROWS levels
    are settled at once: it is trips to memory and reductions across warps that take long, not what is done with them.
    """
    path = tl.program_id(0)
    uniforms += path * stride
    lanes = tl.arange(0, LANES)
    inside = lanes < chunks
    length = tl.load(lengths + path)
    uniform_after = tl.load(uniforms + last)
    level, remains = tl.full((), -1, tl.int64), tl.zeros((), dtype=tl.int64)
    for first in range(0, LEVELS + 1, ROWS):
        i = first + tl.arange(0, ROWS)
        there = i <= LEVELS
        at = path * (LEVELS + 1) + i
        weight = tl.load(weights + at, mask=there, other=1.0)
        uniform = tl.load(uniforms + (i - 1) * step, mask=there & (i > 0), other=0.0)
        sums = tl.zeros([ROWS, COLUMNS], dtype=tl.int64)
        for chunk in tl.static_range(0, LANES, COLUMNS):
            column = chunk + tl.arange(0, COLUMNS)
            sums += tl.load(rest + at[:, None] * chunks + column, mask=there[:, None] & (column < chunks), other=0)
        left = tl.sum(sums, 1)
        missing = left.to(tl.float64) * 2.168404344971009e-19  # a power of two, 1 / units
        refused = 1.0 - weight
        stop = tl.where(refused > 0, missing / tl.where(refused > 0, missing + refused, 1.0), 1.0)
        stop = tl.where(i == length, weight, tl.where(i > length, 0.0, stop))
        stops = there & ((i == 0) | (uniform < stop))
        found, left = tl.reduce((tl.where(stops, i, -1).to(tl.int64), left), 0, later)
        level, remains = later(level, remains, found, left)
    p_row, q_row, place, drafted, weight = step_of(p_rows, q_rows, places, drafts, weights, path, level, LEVELS)
    tl.store(accepted + path, level)

    at = (path * (LEVELS + 1) + level) * chunks + lanes
    spent = remains == 0  # up to rounding: the draw is from p itself
    if spent:
        sums = tl.load(whole + at, mask=inside, other=0)
        total = tl.sum(sums)
    else:
        sums = tl.load(rest + at, mask=inside, other=0)
        total = remains
    point = tl.minimum((uniform_after * total.to(tl.float64)).to(tl.int64), total - 1)
    sums = tl.cumsum(sums, 0)
    before = inside & (sums <= point)
    chunk, passed = tl.reduce((before.to(tl.int64), tl.where(before, sums, 0)), 0, counted)
    start = tl.minimum(chunk, chunks - 1) * BLOCK
    left, mine = rest_at(
        p, p_high, p_first, p_heat, p_scale, p_sound, q, q_high, q_first, q_heat, q_scale, q_sound,
        factor, p_row, q_row, place, drafted, weight, level >= length, start + tl.arange(0, BLOCK), vocab,
        LOGITS, POINT, FACTOR, GROUPS, PIECES, RARE, LESS, MORE,
    )  # fmt: skip
    sums = tl.cumsum(tl.where(spent, mine, left), 0)
    drawn = tl.minimum(start + tl.sum((sums <= point - passed).to(tl.int64)), vocab - 1)
    tl.store(token + path, drawn)
