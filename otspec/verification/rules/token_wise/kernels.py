"""Token by token in Triton: what can be said of all slots of drafted trees at once, a walk, and a draw where it ends.

Slots of one text are told by the first of them, their head: at it stand all drafts of their children.  Which of them
is picked and whether it is accepted does not depend on how the walk came there.  Heads with one such draft judge it by
itself; those with several list a problem of the buckets (`bucket_kernels`).

`at` is the head where a walk stands, `refused` whether a draft was refused there, which ends it.
"""

from __future__ import annotations

import triton
import triton.language as tl

from otspec.verification.rules.buckets.bucket_kernels import FLOATS, LONGS, TABLES
from otspec.verification.rules.buckets.lottery_kernels import places_of
from otspec.verification.tensors.reading_kernels import bucket_of, law_of, units_of

TREE, SLOT, DRAFTS, P_ROW, Q_ROW = (tl.constexpr(field) for field in range(5))
FIELDS = tl.constexpr(5)


@triton.jit
def find_sound(
    p, p_high, p_first, p_heat, p_scale, p_sound,
    q, q_high, q_first, q_heat, q_scale, q_sound,
    laid, parent, depth, children, target_row, draft_row, tokens, sound, safe_target, safe_draft, safe_tokens, slots,
    p_count, q_count, vocab,
    LOGITS: tl.constexpr, LEAVES: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """Whether all slots have their laws, with LEAVES also those without children, and tokens that could be drawn.

    Safe are rows and tokens that there are: what they were, in trees that are sound.
    """
    tree = tl.program_id(0)
    base = tree.to(tl.int64) * slots
    wrong = tl.zeros([LANES], tl.int32)
    for begin in range(0, slots, LANES):
        lanes = begin + tl.arange(0, LANES)
        inside = lanes < slots
        level = tl.load(depth + base + lanes, mask=inside, other=-1)
        inner = tl.load(children + base + lanes, mask=inside, other=0) > 0
        asked = (level >= 0) & (inner | LEAVES)
        row = tl.load(target_row + base + lanes, mask=inside, other=0)
        known = (row >= 0) & (row < p_count)
        tl.store(safe_target + base + lanes, tl.where(known, row, 0), mask=inside)
        wrong += (asked & ~(known & (tl.load(p_sound + tl.where(known, row, 0)) != 0))).to(tl.int32)
        row = tl.load(draft_row + base + lanes, mask=inside, other=0)
        known = (row >= 0) & (row < q_count)
        tl.store(safe_draft + base + lanes, tl.where(known, row, 0), mask=inside)
        wrong += (inner & ~(known & (tl.load(q_sound + tl.where(known, row, 0)) != 0))).to(tl.int32)
        drafted = level > 0
        above = tl.load(parent + base + lanes, mask=drafted, other=0)
        row = tl.load(draft_row + base + above)
        row = tl.where((row >= 0) & (row < q_count), row, 0)
        token = tl.load(tokens + base + lanes, mask=drafted, other=0)
        known = (token >= 0) & (token < vocab)
        tl.store(safe_tokens + base + lanes, tl.where(drafted & known, token, 0), mask=inside)
        chance = law_of(
            q, q_high, q_first, q_heat, q_scale, q_sound, row, tl.where(known, token, 0), vocab, LOGITS
        )  # fmt: skip
        wrong += (drafted & ~(known & (chance > 0))).to(tl.int32)
    right = (tl.sum(wrong) == 0) & (tl.load(laid + tree) != 0)
    tl.store(sound + tree, right.to(tl.int8))


@triton.jit
def find_heads(
    parent, depth, children, tokens, target_row, draft_row, heads, drafts, p_rows, q_rows, slots,
    APART: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """The head of each slot, how many drafts there are of its text's next token, and the rows of laws after it.

    APART, slots of one text are told apart: each is a head.
    """
    base, slot = tl.program_id(0).to(tl.int64) * slots, tl.program_id(1)
    level = tl.load(depth + base + slot)
    head, count, lawful = slots, tl.zeros([], tl.int64), slots
    for begin in range(0, slots, LANES):
        lanes = begin + tl.arange(0, LANES)
        same = (tl.load(depth + base + lanes, mask=lanes < slots, other=-1) == level) & (lanes < slots)
        if APART:
            same = same & (lanes == slot)
        mine, other = slot.to(tl.int64), tl.where(same, lanes, 0).to(tl.int64)
        for _ in range(level):
            same = same & (tl.load(tokens + base + other) == tl.load(tokens + base + mine))
            mine, other = tl.load(parent + base + mine), tl.load(parent + base + other)
        under = tl.load(children + base + lanes, mask=same, other=0)
        head = tl.minimum(head, tl.min(tl.where(same, lanes, slots)))
        lawful = tl.minimum(lawful, tl.min(tl.where(under > 0, lanes, slots)))
        count += tl.sum(under)
    there = level >= 0
    tl.store(heads + base + slot, tl.where(there, head, -1).to(tl.int64))
    tl.store(drafts + base + slot, tl.where(there, count, 0))
    tl.store(p_rows + base + slot, tl.load(target_row + base + tl.where(there, head, slot)))
    tl.store(q_rows + base + slot, tl.load(draft_row + base + tl.where(there & (count > 0), lawful, slot)))


@triton.jit
def enlist(
    p, p_high, p_first, p_heat, p_scale, p_sound,
    q, q_high, q_first, q_heat, q_scale, q_sound,
    sound, parent, depth, heads, drafts, p_rows, q_rows, tokens, uniforms, at, refused, heirs, numbers, nodes, count,
    most, offset, begin, end, slots, draws, vocab,
    LOGITS: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """List the heads of some levels with several drafts, below where the walk stands; judge drafts by themselves."""
    tree = tl.program_id(0).to(tl.int64)
    if (tl.load(sound + tree) != 0) & (tl.load(refused + tree) == 0):
        base = tree * slots
        lanes = tl.arange(0, LANES)
        inside = lanes < slots
        level = tl.load(depth + base + lanes, mask=inside, other=-1)
        head = tl.load(heads + base + lanes, mask=inside, other=-1)
        own = tl.load(drafts + base + lanes, mask=inside, other=0)
        ancestor = lanes.to(tl.int64)
        for _ in range(begin, end - 1):
            deep = tl.load(depth + base + ancestor, mask=inside, other=-1) > begin
            ancestor = tl.where(deep, tl.load(parent + base + ancestor, mask=deep, other=0), ancestor)
        below = tl.load(heads + base + ancestor, mask=inside, other=-1) == tl.load(at + tree)
        asked = below & (level >= begin) & (level < end) & (head == lanes)
        several = asked & (own > 1)
        place = tl.cumsum(several.to(tl.int64), 0) - 1
        place += tl.atomic_add(count, tl.sum(several.to(tl.int64)), sem="relaxed")
        tl.store(numbers + base + lanes, tl.where(several, offset + place, -1), mask=asked)
        tl.store(nodes + TREE * most + place, tl.zeros([LANES], tl.int64) + tree, mask=several)
        tl.store(nodes + SLOT * most + place, lanes.to(tl.int64), mask=several)
        tl.store(nodes + DRAFTS * most + place, own, mask=several)
        tl.store(nodes + P_ROW * most + place, tl.load(p_rows + base + lanes, mask=several, other=0), mask=several)
        tl.store(nodes + Q_ROW * most + place, tl.load(q_rows + base + lanes, mask=several, other=0), mask=several)

        # The law of an only draft is q.
        drafted = (level > begin) & (level <= end)
        above = tl.load(heads + base + tl.load(parent + base + lanes, mask=drafted, other=0), mask=drafted, other=0)
        alone = drafted & (tl.load(drafts + base + above, mask=drafted, other=0) == 1)
        token = tl.load(tokens + base + lanes, mask=alone, other=0)
        p_row = tl.load(p_rows + base + above, mask=alone, other=0)
        q_row = tl.load(q_rows + base + above, mask=alone, other=0)
        here = law_of(p, p_high, p_first, p_heat, p_scale, p_sound, p_row, token, vocab, LOGITS)
        there = law_of(q, q_high, q_first, q_heat, q_scale, q_sound, q_row, token, vocab, LOGITS)
        dealt = uniforms + tree * 3 * draws
        accepted = tl.load(dealt + 3 * (slots - 2 + level), mask=alone, other=0.0) * there < here
        tl.store(heirs + base + above, tl.where(accepted, head, -1), mask=alone)


@triton.jit
def pick(
    p, p_high, p_first, p_heat, p_scale, p_sound,
    q, q_high, q_first, q_heat, q_scale, q_sound,
    parent, depth, heads, tokens, uniforms, heirs, nodes, count, start, longs, floats, tables, factor,
    most, slots, draws, vocab,
    LOGITS: tl.constexpr, COUNT: tl.constexpr, BITS: tl.constexpr, COLUMNS: tl.constexpr, ROUNDS: tl.constexpr,
    TILE: tl.constexpr, CHUNKS: tl.constexpr, CHUNK_ROUNDS: tl.constexpr, CARRIES: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """The draft that is picked of each problem, and whether it is accepted."""
    node = tl.program_id(0).to(tl.int64)
    if node < tl.load(count) - start:
        nodes += start + node
        tree, slot = tl.load(nodes + TREE * most), tl.load(nodes + SLOT * most)
        p_row, q_row = tl.load(nodes + P_ROW * most), tl.load(nodes + Q_ROW * most)
        base = tree * slots
        lanes = tl.arange(0, LANES)
        level = tl.load(depth + base + slot)
        asked = tl.load(depth + base + lanes, mask=lanes < slots, other=-1) == level + 1
        above = tl.load(parent + base + lanes, mask=asked, other=0)
        asked = asked & (tl.load(heads + base + above, mask=asked, other=-1) == slot)
        token = tl.load(tokens + base + lanes, mask=asked, other=0)
        here = law_of(p, p_high, p_first, p_heat, p_scale, p_sound, p_row, token, vocab, LOGITS)
        there = law_of(q, q_high, q_first, q_heat, q_scale, q_sound, q_row, token, vocab, LOGITS)
        ranks = tl.where(asked, bucket_of(here, there, COUNT, BITS), 0)
        dealt = uniforms + tree * 3 * draws
        drawn = dealt + 3 * (lanes - 1)
        places = places_of(
            ranks, tl.load(drawn, mask=asked, other=0.0), tl.load(drawn + 1, mask=asked, other=0.0), asked,
            longs + node * LONGS * COLUMNS, floats + node * FLOATS * COLUMNS, tables + node * TABLES * CARRIES,
            COLUMNS, ROUNDS, TILE, CHUNKS, CHUNK_ROUNDS, CARRIES,
        )  # fmt: skip
        fraction = tl.load(drawn + 2, mask=asked, other=0.0)
        fraction = tl.where(asked & (places == tl.max(places)), fraction, -1.0)
        picked = lanes == tl.argmax(fraction, 0)
        rank = tl.sum(tl.where(picked, ranks, 0))
        per_q = tl.load(factor + (start + node) * COLUMNS + rank)
        proposal = per_q * tl.sum(tl.where(picked, there, 0.0))
        accepted = tl.load(dealt + 3 * (slots - 1 + level)) * proposal < tl.sum(tl.where(picked, here, 0.0))
        heir = tl.sum(tl.where(picked, tl.load(heads + base + lanes, mask=asked, other=0), 0))
        tl.store(heirs + base + slot, tl.where(accepted, heir, -1))


@triton.jit
def walk(
    sound, heads, drafts, heirs, tokens, at, refused, line, taken, begin, end, slots,
    LENGTH: tl.constexpr,
):  # fmt: skip
    """From head to head, over some levels."""
    tree = tl.program_id(0).to(tl.int64)
    base = tree * slots
    head = tl.load(at + tree)
    ended = tl.load(refused + tree)
    read = tl.load(sound + tree) != 0
    for level in range(begin, end):
        goes = read & (ended == 0) & (tl.load(drafts + base + head) > 0)
        heir = tl.load(heirs + base + head, mask=goes, other=-1)
        ended = tl.where(goes & (heir < 0), 1, ended)
        tl.store(line + tree * LENGTH + level, heir)
        tl.store(taken + tree * LENGTH + level, tl.load(tokens + base + heir, mask=heir >= 0, other=-1))
        head = tl.where(heir >= 0, heir, head)
    tl.store(at + tree, head)
    tl.store(refused + tree, ended)


@triton.jit
def left_of(
    p, p_high, p_first, p_heat, p_scale, p_sound,
    q, q_high, q_first, q_heat, q_scale, q_sound,
    factor, p_row, q_row, number, refused, tokens, vocab,
    LOGITS: tl.constexpr, COUNT: tl.constexpr, BITS: tl.constexpr,
):  # fmt: skip
    """(p - g)+ of some tokens where a draft was refused, else p; and p: in units."""
    here = law_of(p, p_high, p_first, p_heat, p_scale, p_sound, p_row, tokens, vocab, LOGITS)
    left = here
    if refused:
        there = law_of(q, q_high, q_first, q_heat, q_scale, q_sound, q_row, tokens, vocab, LOGITS)
        if number >= 0:
            bucket = bucket_of(here, there, COUNT, BITS)
            there = there * tl.load(factor + number * (COUNT + 1) + bucket)
        left = tl.maximum(here - there, 0.0)
    return units_of(left), units_of(here)


@triton.jit
def sum_left(
    p, p_high, p_first, p_heat, p_scale, p_sound,
    q, q_high, q_first, q_heat, q_scale, q_sound,
    factor, sound, p_rows, q_rows, numbers, at, refused, left, whole, slots, vocab,
    LOGITS: tl.constexpr, COUNT: tl.constexpr, BITS: tl.constexpr, LEAVES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Sums over each chunk of the law that the last token is drawn from, and of p, shape (B, chunks)."""
    tree, chunk = tl.program_id(0).to(tl.int64), tl.program_id(1)
    ended = tl.load(refused + tree) != 0
    if (tl.load(sound + tree) != 0) & (ended | LEAVES):
        slot = tree * slots + tl.load(at + tree)
        tokens = chunk * BLOCK + tl.arange(0, BLOCK)
        rest, mine = left_of(
            p, p_high, p_first, p_heat, p_scale, p_sound, q, q_high, q_first, q_heat, q_scale, q_sound,
            factor, tl.load(p_rows + slot), tl.load(q_rows + slot), tl.load(numbers + slot), ended, tokens, vocab,
            LOGITS, COUNT, BITS,
        )  # fmt: skip
        tl.store(left + tree * tl.num_programs(1) + chunk, tl.sum(rest))
        tl.store(whole + tree * tl.num_programs(1) + chunk, tl.sum(mine))


@triton.jit
def draw_left(
    p, p_high, p_first, p_heat, p_scale, p_sound,
    q, q_high, q_first, q_heat, q_scale, q_sound,
    factor, sound, p_rows, q_rows, numbers, depth, at, refused, left, whole, uniforms, token,
    slots, draws, chunks, vocab,
    LOGITS: tl.constexpr, COUNT: tl.constexpr, BITS: tl.constexpr, LEAVES: tl.constexpr, BLOCK: tl.constexpr,
    LANES: tl.constexpr,
):  # fmt: skip
    """The token after what is accepted; 0 in trees that are not sound, and where leaves have no laws."""
    tree = tl.program_id(0).to(tl.int64)
    ended = tl.load(refused + tree) != 0
    drawn = tl.zeros([], tl.int64)
    if (tl.load(sound + tree) != 0) & (ended | LEAVES):
        slot = tree * slots + tl.load(at + tree)
        lanes = tl.arange(0, LANES)
        inside = lanes < chunks
        rest = tl.load(left + tree * chunks + lanes, mask=inside, other=0)
        mine = tl.load(whole + tree * chunks + lanes, mask=inside, other=0)
        spent = tl.sum(rest) == 0  # refused, and nothing is left of p, by rounding: a draw from p itself
        sums = tl.where(spent, mine, rest)
        total = tl.sum(sums)
        row = tl.where(ended, slots - 1 + tl.load(depth + slot), draws - 1)
        point = (tl.load(uniforms + (tree * draws + row) * 3 + 1) * total.to(tl.float64)).to(tl.int64)
        point = tl.minimum(point, total - 1)
        passed = (tl.cumsum(sums, 0) <= point) & inside
        chunk = tl.minimum(tl.sum(passed.to(tl.int64)), chunks - 1)
        point -= tl.sum(tl.where(lanes < chunk, sums, 0))
        begin = chunk * BLOCK
        rest, mine = left_of(
            p, p_high, p_first, p_heat, p_scale, p_sound, q, q_high, q_first, q_heat, q_scale, q_sound,
            factor, tl.load(p_rows + slot), tl.load(q_rows + slot), tl.load(numbers + slot), ended,
            begin + tl.arange(0, BLOCK), vocab, LOGITS, COUNT, BITS,
        )  # fmt: skip
        passed = tl.cumsum(tl.where(spent, mine, rest), 0) <= point
        drawn = tl.minimum(begin + tl.sum(passed.to(tl.int64)), vocab - 1)
    tl.store(token + tree, drawn)
