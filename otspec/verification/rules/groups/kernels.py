"""Triton kernels that put tokens into groups: histograms of all laws of trees, and their totals, in one pass over them.

Tokens are in groups by p/q of the laws as they came (`sharing.bucket`), so nothing has to be known of these before.
"""

from __future__ import annotations

import triton
import triton.language as tl

from otspec.verification.tensors.reading_kernels import law_of, units_of


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
def as_it_came(values, row, tokens, vocab):
    """Probabilities of some tokens of a row, before they are divided by their total."""
    return tl.load(values + row.to(tl.int64) * vocab + tokens, mask=tokens < vocab, other=0.0)


@triton.jit
def group_of(
    p, p_row, q, q_row, tokens, vocab,
    GROUPS: tl.constexpr, PIECES: tl.constexpr, RARE: tl.constexpr, LESS: tl.constexpr, MORE: tl.constexpr,
):  # fmt: skip
    """`sharing.group` of large vocabularies, operation by operation, as `add_to_groups` has it."""
    there = as_it_came(q, q_row, tokens, vocab)
    mine, theirs = as_it_came(p, p_row, tokens, vocab).to(tl.float32), there.to(tl.float32)
    rare = (mine < RARE) & (theirs < RARE)
    digits = tl.where(rare, tl.where(mine < theirs, LESS, MORE), quotient(mine, theirs, (there > 0) & ~rare))
    return tl.where(there > 0, bucket_of(digits, PIECES), GROUPS).to(tl.int64)


@triton.jit
def row_of(rows, place, count):
    """The row of a slot, or another one that there is."""
    return tl.minimum(tl.maximum(tl.load(rows + place), 0), count - 1).to(tl.int64)


@triton.jit
def steps_of(law, few):
    """Those of probabilities that are few, in steps of 2**-52 (`sharing.STEP`), of doubles in units; 0 for others."""
    if law.dtype == tl.float64:
        steps = units_of(tl.where(few, tl.abs(law), 0.0))  # the sign is that of 0
    else:
        steps = (tl.where(few, tl.abs(law.to(tl.float32)), 0.0) * 4503599627370496.0 + 0.5).to(tl.uint32).to(tl.int64)
    return steps


@triton.jit
def steps_as_units(steps, DOUBLE: tl.constexpr):
    """What they are in units."""
    if not DOUBLE:
        steps = steps << 10
    return steps


@triton.jit
def all_units_of(law):
    """Probabilities as they came, in units, rounded down where they were no doubles; too much of what is none."""
    if law.dtype == tl.float64:
        units = units_of(tl.where(law >= 0, tl.minimum(law, 1.5), 1.5))
    else:
        known = law.to(tl.float32)
        units = (tl.where(known >= 0, tl.minimum(known, 1.5), 1.5) * 4611686018427387904.0).to(tl.int64)
    return units


@triton.jit
def add_eight(a, b, c, d, e, f, g, h, i, j, k, m, n, o, p, q):
    """Eight sums."""
    return a + i, b + j, c + k, d + m, e + n, f + o, g + p, h + q


@triton.jit
def eight_sums(a, b, c, d, e, f, g, h, TOGETHER: tl.constexpr):
    """Over all lanes: each by itself waits as long as all together, for which the interpreter takes long."""
    if TOGETHER:
        a, b, c, d, e, f, g, h = tl.reduce((a, b, c, d, e, f, g, h), 0, add_eight)
    else:
        a, b, c, d = tl.sum(a), tl.sum(b), tl.sum(c), tl.sum(d)
        e, f, g, h = tl.sum(e), tl.sum(f), tl.sum(g), tl.sum(h)
    return a, b, c, d, e, f, g, h


@triton.jit
def put_rare(sums, digits, amount, PIECES: tl.constexpr):
    """Add what rare tokens add up to into the group of all that are on one side of 1."""
    group = bucket_of(tl.full((), digits, tl.int32), PIECES)
    tl.atomic_add(sums + group, amount, mask=amount > 0, sem="relaxed")


@triton.jit
def add_to_groups(
    p, q, p_rows, q_rows, children, depths, target, size, p_count, q_count, vocab,
    GROUPS: tl.constexpr, PIECES: tl.constexpr, RARE: tl.constexpr, LESS: tl.constexpr, MORE: tl.constexpr,
    BLOCK: tl.constexpr, TILES: tl.constexpr, TOGETHER: tl.constexpr,
):  # fmt: skip
    """Histograms of p and q over the groups of each slot, as they came, in units, and their totals after them.

    The totals are in units, which run over if it is no law, and in a million of them, which do not, and tell that.
    Most tokens are rare.  Those are added up where they are read, and the others only marked, a bit for each tile.
    Then every lane goes on from one that it has marked to the next, for which all lanes together take few rounds.
    """
    pair = tl.program_id(0)
    if tl.load(depths + pair) >= 0:
        p += row_of(p_rows, pair, p_count) * vocab
        q += row_of(q_rows, pair, q_count) * vocab
        q_end = tl.where(tl.load(children + pair) > 0, vocab, 0)
        target += pair.to(tl.int64) * (GROUPS + 2)
        size += pair.to(tl.int64) * (GROUPS + 2)
        first = tl.program_id(1) * BLOCK * TILES + tl.arange(0, BLOCK)
        none = tl.zeros([BLOCK], tl.int64)
        all_mine, drafted_mine, more_mine, all_theirs, more_theirs = none, none, none, none, none
        marks, count = tl.zeros([BLOCK], tl.int32), tl.zeros([BLOCK], tl.int32)
        for number in tl.range(TILES, loop_unroll_factor=TILES if TILES < 4 else 4):
            tokens = first + number * BLOCK
            here = tl.load(p + tokens, mask=tokens < vocab, other=0.0)
            there = tl.load(q + tokens, mask=tokens < q_end, other=0.0)
            mine, theirs = here.to(tl.float32), there.to(tl.float32)
            rare = (mine < RARE) & (theirs < RARE) & (tl.minimum(mine, theirs) >= 0)
            drafted = there > 0
            more = drafted & (mine >= theirs)
            marks |= tl.where(rare, 0, 1 << number)
            count += tl.where(rare, 0, 1)
            amount, length = steps_of(here, rare), steps_of(there, rare)
            all_mine += amount
            drafted_mine += tl.where(drafted, amount, 0)
            more_mine += tl.where(more, amount, 0)
            all_theirs += length
            more_theirs += tl.where(more, length, 0)

        p_double: tl.constexpr = p.dtype.element_ty == tl.float64
        q_double: tl.constexpr = q.dtype.element_ty == tl.float64
        total_mine, total_theirs = steps_as_units(all_mine, p_double), steps_as_units(all_theirs, q_double)
        coarse_mine, coarse_theirs = total_mine >> 20, total_theirs >> 20
        for _ in range(tl.max(count)):
            lowest = marks & -marks
            tile = ((lowest.to(tl.float32).to(tl.int32, bitcast=True) >> 23) & 255) - 127  # its exponent
            tokens = first + tile * BLOCK
            marked = marks != 0
            marks ^= lowest
            here = tl.load(p + tokens, mask=marked, other=0.0)
            there = tl.load(q + tokens, mask=marked & (tokens < q_end), other=0.0)
            drafted = there > 0  # what is not is in the last group, and its p is not asked for
            amount, length = all_units_of(here), all_units_of(there)
            length |= drafted.to(tl.int64)
            group = bucket_of(quotient(here.to(tl.float32), there.to(tl.float32), drafted), PIECES)
            tl.atomic_add(target + group, amount, mask=drafted & (amount > 0), sem="relaxed")
            tl.atomic_add(size + group, length, mask=drafted, sem="relaxed")
            total_mine += amount
            total_theirs += length
            coarse_mine += amount >> 20
            coarse_theirs += length >> 20
        (
            less_mine, more_mine, less_theirs, more_theirs, total_mine, total_theirs, coarse_mine, coarse_theirs,
        ) = eight_sums(
            drafted_mine - more_mine, more_mine, all_theirs - more_theirs, more_theirs,
            total_mine, total_theirs, coarse_mine, coarse_theirs, TOGETHER,
        )  # fmt: skip
        put_rare(target, LESS, steps_as_units(less_mine, p_double), PIECES)
        put_rare(target, MORE, steps_as_units(more_mine, p_double), PIECES)
        put_rare(size, LESS, steps_as_units(less_theirs, q_double), PIECES)
        put_rare(size, MORE, steps_as_units(more_theirs, q_double), PIECES)
        tl.atomic_add(target + GROUPS, total_mine, sem="relaxed")
        tl.atomic_add(size + GROUPS, total_theirs, sem="relaxed")
        tl.atomic_add(target + GROUPS + 1, coarse_mine, sem="relaxed")
        tl.atomic_add(size + GROUPS + 1, coarse_theirs, sem="relaxed")


@triton.jit
def settle_row(sums, rows, place, count, scales, sound, DRIFT: tl.constexpr, GROUPS: tl.constexpr):
    """Whether a slot's row is a law, by its total, and what it is multiplied by to add up to 1."""
    total = tl.load(sums + GROUPS).to(tl.float64) / 4611686018427387904.0
    about = tl.load(sums + GROUPS + 1).to(tl.float64) / 4398046511104.0
    right = (tl.abs(total - 1.0) <= DRIFT) & (about < 2)
    row = tl.load(rows + place)
    there = (row >= 0) & (row < count)
    tl.store(scales + row, 1.0 / tl.where(right, total, 1.0), mask=there)
    tl.store(sound + row, right.to(tl.int8), mask=there)
    return (right & there).to(tl.int32)


@triton.jit
def settle_groups(
    target, size, p_rows, q_rows, children, depths, p_scale, p_sound, q_scale, q_sound, p_count, q_count,
    P_DRIFT: tl.constexpr, Q_DRIFT: tl.constexpr, GROUPS: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """`settle_totals`, by the totals of the slots' groups.  Slots whose laws are none have one token that is drawn."""
    pair = tl.program_id(0)
    if tl.load(depths + pair) >= 0:
        target += pair.to(tl.int64) * (GROUPS + 2)
        size += pair.to(tl.int64) * (GROUPS + 2)
        right = settle_row(target, p_rows, pair, p_count, p_scale, p_sound, P_DRIFT, GROUPS)
        if tl.load(children + pair) > 0:
            right *= settle_row(size, q_rows, pair, q_count, q_scale, q_sound, Q_DRIFT, GROUPS)
            groups = tl.arange(0, LANES)
            one = tl.where(groups == 0, tl.full([LANES], 4611686018427387904, tl.int64), 0)
            replaced = groups < tl.where(right > 0, 0, GROUPS)
            tl.store(target + groups, one, mask=replaced)
            tl.store(size + groups, one, mask=replaced)


@triton.jit
def look_up_groups(
    p, p_high, p_first, p_heat, p_scale, p_sound,
    q, q_high, q_first, q_heat, q_scale, q_sound,
    p_rows, q_rows, parents, drafts, p_at, q_at, group_at, count, slots, vocab,
    GROUPS: tl.constexpr, PIECES: tl.constexpr, RARE: tl.constexpr, LESS: tl.constexpr, MORE: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Both laws and the group of the tokens of all slots, after their parents."""
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    asked = lanes < count
    parent = lanes // slots * slots + tl.load(parents + lanes, mask=asked, other=0)
    p_row, q_row = tl.load(p_rows + parent, mask=asked, other=0), tl.load(q_rows + parent, mask=asked, other=0)
    tokens = tl.load(drafts + lanes, mask=asked, other=0)
    here = law_of(p, p_high, p_first, p_heat, p_scale, p_sound, p_row, tokens, vocab, False)
    there = law_of(q, q_high, q_first, q_heat, q_scale, q_sound, q_row, tokens, vocab, False)
    tl.store(p_at + lanes, here, mask=asked)
    tl.store(q_at + lanes, there, mask=asked)
    group = group_of(p, p_row, q, q_row, tokens, vocab, GROUPS, PIECES, RARE, LESS, MORE)
    tl.store(group_at + lanes, group, mask=asked)
