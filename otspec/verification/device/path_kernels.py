"""Triton kernels of block verification: what a path needs of its laws, in two passes over them.

Laws are rows of tensors, made where they are read (`kernels.law_of`); paths say which rows are theirs.  The law that a
token has is its draft law, times a factor of the token's group where there are factors (`sharing.group`), or all on
the token itself where nothing was drawn.
"""

from __future__ import annotations

import triton
import triton.language as tl

from otspec.verification.device.kernels import law_of, units_of


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
def bucket_of(digits, PIECES: tl.constexpr):
    """The bucket of p/q, from its float32."""
    found = tl.zeros_like(digits)
    for i in tl.static_range(0, len(PIECES), 3):
        found += tl.minimum(tl.maximum((digits >> PIECES[i]) - PIECES[i + 1], 0), PIECES[i + 2])
    return found


@triton.jit
def quotient(p, q, known):
    """The digits of p/q, where it is known: those of 1 elsewhere."""
    return tl.div_rn(tl.where(known, p, 1.0), tl.where(known, q, 1.0)).to(tl.int32, bitcast=True)


@triton.jit
def group_of(
    p, q,
    GROUPS: tl.constexpr, PIECES: tl.constexpr, RARE: tl.constexpr, LESS: tl.constexpr, MORE: tl.constexpr,
):  # fmt: skip
    """`sharing.group` of large vocabularies, operation by operation."""
    mine, theirs = p.to(tl.float32), q.to(tl.float32)
    rare = (mine < RARE) & (theirs < RARE)
    digits = tl.where(rare, tl.where(mine < theirs, LESS, MORE), quotient(mine, theirs, (q > 0) & ~rare))
    return tl.where(q > 0, bucket_of(digits, PIECES), GROUPS).to(tl.int64)


@triton.jit
def read_row(values, scale, sound, row, vocab):
    """What `scaled` takes of a row of probabilities, which it would take long to read for every tile."""
    read = tl.load(sound + row) != 0
    other = tl.where(read, 0.0, 1.0 / vocab).to(values.dtype.element_ty)
    return values + row.to(tl.int64) * vocab, tl.where(read, vocab, 0), other, tl.load(scale + row)


@triton.jit
def scaled(values, end, other, scale, tokens):
    """`law_of`, of probabilities; that of a row which is not sound goes on beyond the vocabulary."""
    return tl.load(values + tokens, mask=tokens < end, other=other).to(tl.float64) * scale


@triton.jit
def put_rare(sums, digits, amount, PIECES: tl.constexpr):
    """Add what rare tokens add up to into the group of all that are on one side of 1."""
    group = bucket_of(tl.full((), digits, tl.int32), PIECES)
    tl.atomic_add(sums + group, amount, mask=amount > 0, sem="relaxed")


@triton.jit
def add_to_groups(
    p, p_high, p_first, p_heat, p_scale, p_sound,
    q, q_high, q_first, q_heat, q_scale, q_sound,
    p_rows, q_rows, asked, target, size, vocab,
    GROUPS: tl.constexpr, PIECES: tl.constexpr, RARE: tl.constexpr, LESS: tl.constexpr, MORE: tl.constexpr,
    BLOCK: tl.constexpr, TILES: tl.constexpr,
):  # fmt: skip
    """Histograms of p and q over the groups, shape (R, GROUPS + 1), in units, for the pairs of rows that are asked.

    Atomic additions in memory are slow.  Most tokens are rare: lanes add up those of their tiles, and programs theirs.
    """
    pair = tl.program_id(0)
    if tl.load(asked + pair) != 0:
        p, p_end, p_other, p_times = read_row(p, p_scale, p_sound, tl.load(p_rows + pair), vocab)
        q, q_end, q_other, q_times = read_row(q, q_scale, q_sound, tl.load(q_rows + pair), vocab)
        target += pair.to(tl.int64) * (GROUPS + 1)
        size += pair.to(tl.int64) * (GROUPS + 1)
        tokens = tl.program_id(1) * BLOCK * TILES + tl.arange(0, BLOCK)
        none = tl.zeros([BLOCK], tl.int64)
        all_mine, all_theirs, more_mine, more_theirs = none, none, none, none
        for _ in range(TILES):
            here = scaled(p, p_end, p_other, p_times, tokens)
            there = scaled(q, q_end, q_other, q_times, tokens)
            mine, theirs = units_of(here), units_of(there) | 1
            drafted = there > 0  # what is not is in the last group, and its p is not asked for
            here, there = here.to(tl.float32), there.to(tl.float32)
            small = (here < RARE) & (there < RARE)
            known = drafted & ~small
            group = bucket_of(quotient(here, there, known), PIECES)
            tl.atomic_add(target + group, mine, mask=(mine > 0) & known, sem="relaxed")
            tl.atomic_add(size + group, theirs, mask=known, sem="relaxed")
            rare = drafted & small
            more = rare & (here >= there)
            all_mine += tl.where(rare, mine, 0)
            all_theirs += tl.where(rare, theirs, 0)
            more_mine += tl.where(more, mine, 0)
            more_theirs += tl.where(more, theirs, 0)
            tokens += BLOCK
        put_rare(target, MORE, tl.sum(more_mine), PIECES)
        put_rare(target, LESS, tl.sum(all_mine - more_mine), PIECES)
        put_rare(size, MORE, tl.sum(more_theirs), PIECES)
        put_rare(size, LESS, tl.sum(all_theirs - more_theirs), PIECES)


@triton.jit
def look_up_groups(
    p, p_high, p_first, p_heat, p_scale, p_sound,
    q, q_high, q_first, q_heat, q_scale, q_sound,
    p_rows, q_rows, drafts, p_at, q_at, group_at, count, vocab,
    GROUPS: tl.constexpr, PIECES: tl.constexpr, RARE: tl.constexpr, LESS: tl.constexpr, MORE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Both laws and the group of some tokens, each of rows of its own, by the operations of `add_to_groups`."""
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    asked = lanes < count
    p_row, q_row = tl.load(p_rows + lanes, mask=asked, other=0), tl.load(q_rows + lanes, mask=asked, other=0)
    tokens = tl.load(drafts + lanes, mask=asked, other=0)
    here = law_of(p, p_high, p_first, p_heat, p_scale, p_sound, p_row, tokens, vocab, False)
    there = law_of(q, q_high, q_first, q_heat, q_scale, q_sound, q_row, tokens, vocab, False)
    tl.store(p_at + lanes, here, mask=asked)
    tl.store(q_at + lanes, there, mask=asked)
    tl.store(group_at + lanes, group_of(here, there, GROUPS, PIECES, RARE, LESS, MORE), mask=asked)


@triton.jit
def given_law(
    q, q_high, q_first, q_heat, q_scale, q_sound, q_row,
    factor, place, here, drafted, tokens, vocab,
    POINT: tl.constexpr, FACTOR: tl.constexpr, GROUPS: tl.constexpr, PIECES: tl.constexpr,
    RARE: tl.constexpr, LESS: tl.constexpr, MORE: tl.constexpr,
):  # fmt: skip
    """The law that a token of the path has, at some tokens; `here` is the target's there."""
    if POINT:
        law = (tokens == drafted).to(tl.float64)
    else:
        law = law_of(q, q_high, q_first, q_heat, q_scale, q_sound, q_row, tokens, vocab, False)
        if FACTOR:
            law = law * tl.load(factor + place * (GROUPS + 1) + group_of(here, law, GROUPS, PIECES, RARE, LESS, MORE))
    return law


@triton.jit
def weigh(
    p, p_high, p_first, p_heat, p_scale, p_sound,
    q, q_high, q_first, q_heat, q_scale, q_sound,
    factor, p_rows, q_rows, places, drafts, lengths, weights, vocab,
    LOGITS: tl.constexpr, POINT: tl.constexpr, FACTOR: tl.constexpr, GROUPS: tl.constexpr,
    PIECES: tl.constexpr, RARE: tl.constexpr, LESS: tl.constexpr, MORE: tl.constexpr, LEVELS: tl.constexpr, LANES: tl.constexpr,
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
        q, q_high, q_first, q_heat, q_scale, q_sound, q_row,
        factor, tl.load(places + path * LEVELS + level), here, drafted, known, vocab,
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
def rest_at(
    p, p_high, p_first, p_heat, p_scale, p_sound,
    q, q_high, q_first, q_heat, q_scale, q_sound,
    factor, p_rows, q_rows, places, drafts, lengths, weights, path, level, tokens, vocab,
    LOGITS: tl.constexpr, POINT: tl.constexpr, FACTOR: tl.constexpr, GROUPS: tl.constexpr,
    PIECES: tl.constexpr, RARE: tl.constexpr, LESS: tl.constexpr, MORE: tl.constexpr, LEVELS: tl.constexpr,
):  # fmt: skip
    """(w p - g)+ after so many tokens of a path, p after all of them; and p: at some tokens, in units."""
    here = law_of(
        p, p_high, p_first, p_heat, p_scale, p_sound, tl.load(p_rows + path * (LEVELS + 1) + level), tokens, vocab,
        LOGITS,
    )  # fmt: skip
    ended = level >= tl.load(lengths + path)
    last = path * LEVELS + tl.minimum(level, LEVELS - 1)
    there = given_law(
        q, q_high, q_first, q_heat, q_scale, q_sound, tl.load(q_rows + last),
        factor, tl.load(places + last), here, tl.load(drafts + last), tokens, vocab,
        POINT, FACTOR, GROUPS, PIECES, RARE, LESS, MORE,
    )  # fmt: skip
    weight = tl.load(weights + path * (LEVELS + 1) + level)
    rest = tl.where(ended, here, tl.maximum(weight * here - there, 0.0))
    return units_of(rest), units_of(here)


@triton.jit
def sum_rest_along(
    p, p_high, p_first, p_heat, p_scale, p_sound,
    q, q_high, q_first, q_heat, q_scale, q_sound,
    factor, p_rows, q_rows, places, drafts, lengths, weights, rest, whole, vocab,
    LOGITS: tl.constexpr, POINT: tl.constexpr, FACTOR: tl.constexpr, GROUPS: tl.constexpr,
    PIECES: tl.constexpr, RARE: tl.constexpr, LESS: tl.constexpr, MORE: tl.constexpr, LEVELS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Sums of `rest_at` over each chunk of each level of a path, shape (B, L + 1, chunks); 0 beyond its end."""
    place, chunk = tl.program_id(0), tl.program_id(1)
    path, level = place // (LEVELS + 1), place % (LEVELS + 1)
    at = place * tl.num_programs(1) + chunk
    if level <= tl.load(lengths + path):
        tokens = chunk * BLOCK + tl.arange(0, BLOCK)
        left, mine = rest_at(
            p, p_high, p_first, p_heat, p_scale, p_sound, q, q_high, q_first, q_heat, q_scale, q_sound,
            factor, p_rows, q_rows, places, drafts, lengths, weights, path, level, tokens, vocab,
            LOGITS, POINT, FACTOR, GROUPS, PIECES, RARE, LESS, MORE, LEVELS,
        )  # fmt: skip
        tl.store(rest + at, tl.sum(left))
        tl.store(whole + at, tl.sum(mine))
    else:
        nothing = tl.zeros((), dtype=tl.int64)
        tl.store(rest + at, nothing)
        tl.store(whole + at, nothing)


@triton.jit
def settle(
    p, p_high, p_first, p_heat, p_scale, p_sound,
    q, q_high, q_first, q_heat, q_scale, q_sound,
    factor, p_rows, q_rows, places, drafts, lengths, weights, rest, whole, uniforms, accepted, token, vocab, chunks,
    LOGITS: tl.constexpr, POINT: tl.constexpr, FACTOR: tl.constexpr, GROUPS: tl.constexpr,
    PIECES: tl.constexpr, RARE: tl.constexpr, LESS: tl.constexpr, MORE: tl.constexpr, LEVELS: tl.constexpr, BLOCK: tl.constexpr,
    LANES: tl.constexpr,
):  # fmt: skip
    """How many tokens of a path are accepted, and the token after them."""
    path = tl.program_id(0)
    lanes = tl.arange(0, LANES)
    inside = lanes < chunks
    length = tl.load(lengths + path)
    level = tl.zeros((), dtype=tl.int64)
    for i in range(1, LEVELS + 1):
        sums = tl.load(rest + (path * (LEVELS + 1) + i) * chunks + lanes, mask=inside, other=0)
        weight = tl.load(weights + path * (LEVELS + 1) + i)
        missing = tl.sum(sums).to(tl.float64) / 4611686018427387904.0
        refused = 1.0 - weight
        stop = tl.where(refused > 0, missing / tl.where(refused > 0, missing + refused, 1.0), 1.0)
        stop = tl.where(i == length, weight, tl.where(i > length, 0.0, stop))
        level = tl.where(tl.load(uniforms + path * (LEVELS + 1) + i - 1) < stop, i, level)
    tl.store(accepted + path, level)

    at = (path * (LEVELS + 1) + level) * chunks + lanes
    left, mine = tl.load(rest + at, mask=inside, other=0), tl.load(whole + at, mask=inside, other=0)
    spent = tl.sum(left) == 0  # up to rounding: the draw is from p itself
    sums = tl.where(spent, mine, left)
    total = tl.sum(sums)
    point = (tl.load(uniforms + path * (LEVELS + 1) + LEVELS) * total.to(tl.float64)).to(tl.int64)
    point = tl.minimum(point, total - 1)
    before = tl.cumsum(sums, 0) <= point
    chunk = tl.minimum(tl.sum((before & inside).to(tl.int64)), chunks - 1)
    point = point - tl.sum(tl.where(lanes < chunk, sums, 0))
    start = chunk * BLOCK
    left, mine = rest_at(
        p, p_high, p_first, p_heat, p_scale, p_sound, q, q_high, q_first, q_heat, q_scale, q_sound,
        factor, p_rows, q_rows, places, drafts, lengths, weights, path, level, start + tl.arange(0, BLOCK), vocab,
        LOGITS, POINT, FACTOR, GROUPS, PIECES, RARE, LESS, MORE, LEVELS,
    )  # fmt: skip
    sums = tl.cumsum(tl.where(spent, mine, left), 0)
    drawn = tl.minimum(start + tl.sum((sums <= point).to(tl.int64)), vocab - 1)
    tl.store(token + path, drawn)
