"""What can be found for all slots of drafted trees at once, in Triton: their heads, and which draft is picked at each.

Slots of one text share a head, the first of them: at it stand all drafts of their children.  Which of them
is picked and whether it is accepted does not depend on how the walk came there.  Heads with one such draft judge it by
itself; those with several queue a problem of the buckets (`buckets.solving_kernels`).

Shapes: B trees of S slots, M problems; uniforms are (B, n, 3), n draws.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from otspec.verification.rules.buckets.chunk_kernels import FLOATS, LONGS, TABLES
from otspec.verification.rules.buckets.cut import Cut, Planes, Problems, Workspace, cut_for
from otspec.verification.rules.buckets.exchange_kernels import places_of
from otspec.verification.rules.buckets.solving_kernels import bucket_of, fill, solve
from otspec.verification.rules.token_wise.stages import Stage
from otspec.verification.tensors.row_kernels import law_of
from otspec.verification.tensors.rows import EXACT, Reading, Rows, lanes, spread
from otspec.verification.trees.batch import TreeBatch
from otspec.verification.trees.validity_kernels import TOGETHER

TREE, SLOT, DRAFTS, P_ROW, Q_ROW = (tl.constexpr(field) for field in range(5))
FIELDS = tl.constexpr(5)


class Heads(NamedTuple):
    """The heads of the slots of B trees, and what stands at them."""

    heads: Tensor
    """Shape (B, S), int64: of each slot; -1 where it hangs nowhere."""
    drafts: Tensor
    """Shape (B, S), int64: how many drafts there are of its text's next token."""
    p_rows: Tensor
    """Shape (B, S), int64: the target's law after its text."""
    q_rows: Tensor
    """Shape (B, S), int64: the law of these drafts."""


class Walk(NamedTuple):
    """How far B walks have come, and what is known of what lies ahead."""

    at: Tensor
    """Shape (B,), int64: the head where a walk stands."""
    refused: Tensor
    """Shape (B,), int64: whether a draft was refused there, which ends it."""
    next_heads: Tensor
    """Shape (B, S), int64: of heads whose problem is solved, the head of the draft that is accepted; -1 for none."""
    numbers: Tensor
    """Shape (B, S), int64: of these heads, the number of the problem; -1 where there is a single draft."""


@triton.jit
def find_heads(
    parent, depth, children, tokens, target_row, draft_row,  # (B, S)
    heads, drafts, p_rows, q_rows,  # (B, S)
    slots,  # scalar: S
    APART: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """The head of each slot, how many drafts there are of its text's next token, and the rows of laws after it.

    APART, slots of one text are kept separate: each is a head.
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


def find_heads_by_kernels(batch: TreeBatch, found: Heads) -> None:
    """Fill in the heads of all slots."""
    layout, (count, slots) = batch.layout, batch.tokens.shape
    find_heads[(count, slots)](
        layout.parent, layout.depth, layout.children, batch.tokens, batch.target_row, batch.draft_row, *found, slots,
        APART=not batch.leaves, LANES=min(lanes(slots), TOGETHER), **EXACT,
    )  # fmt: skip


@triton.jit
def queue(
    p, p_high, p_first, p_heat, p_scale, p_valid,  # (R, V), and of `Rows` (R,)
    q, q_high, q_first, q_heat, q_scale, q_valid,  # (R', V), and of `Rows` (R',)
    valid,  # (B,)
    parent, depth, heads, drafts, p_rows, q_rows, tokens,  # (B, S)
    uniforms,  # (B, n, 3)
    at, refused,  # (B,)
    next_heads, numbers,  # (B, S)
    nodes,  # (FIELDS, M)
    count,  # (1,)
    most, offset, begin, end, slots, draws, vocab,  # scalars: M, problems before, levels, S, n, V
    LOGITS: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """Queue the heads of some levels with several drafts, below where the walk stands; judge drafts by themselves."""
    p_law = Rows(Reading(p, p_high, p_first, p_heat, p_scale), p_valid)
    q_law = Rows(Reading(q, q_high, q_first, q_heat, q_scale), q_valid)
    tree = tl.program_id(0).to(tl.int64)
    if (tl.load(valid + tree) != 0) & (tl.load(refused + tree) == 0):
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
        heirs = below & (level >= begin) & (level < end) & (head == lanes)
        several = heirs & (own > 1)
        place = tl.cumsum(several.to(tl.int64), 0) - 1
        place += tl.atomic_add(count, tl.sum(several.to(tl.int64)), sem="relaxed")
        tl.store(numbers + base + lanes, tl.where(several, offset + place, -1), mask=heirs)
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
        here = law_of(p_law, p_row, token, vocab, LOGITS)
        there = law_of(q_law, q_row, token, vocab, LOGITS)
        own_uniforms = uniforms + tree * 3 * draws
        accepted = tl.load(own_uniforms + 3 * (slots - 2 + level), mask=alone, other=0.0) * there < here
        tl.store(next_heads + base + above, tl.where(accepted, head, -1), mask=alone)


def queue_by_kernels(
    batch: TreeBatch, heads: Heads, walk: Walk, problems: Problems, offset: int, stage: Stage, uniforms: Tensor
) -> None:
    """Queue the problems of a stage, and judge the drafts that stand alone.

    Parameters
    ----------
    batch : TreeBatch
    heads : Heads
    walk : Walk
        Filled in where drafts stand alone.
    problems : Problems
        Filled in.
    offset : int
        How many problems there were before, at most.
    stage : Stage
    uniforms : Tensor of float64, shape (B, n, 3)
    """
    layout, (count, slots) = batch.layout, batch.tokens.shape
    queue[(count,)](
        *spread(batch.target), *spread(batch.draft), batch.valid.view(torch.int8), layout.parent, layout.depth, *heads,
        batch.tokens, uniforms, *walk, problems.fields, problems.listed, problems.fields.shape[1], offset, stage.begin,
        stage.end, slots, uniforms.shape[1], batch.vocab, LOGITS=batch.logits, LANES=lanes(slots), **EXACT,
    )  # fmt: skip


@triton.jit
def pick(
    p, p_high, p_first, p_heat, p_scale, p_valid,  # (R, V), and of `Rows` (R,)
    q, q_high, q_first, q_heat, q_scale, q_valid,  # (R', V), and of `Rows` (R',)
    parent, depth, heads, tokens,  # (B, S)
    uniforms,  # (B, n, 3)
    next_heads,  # (B, S)
    nodes,  # (FIELDS, M)
    count,  # (1,)
    start,  # scalar: the first problem of the wave
    longs, floats, tables,  # (W, LONGS, COLUMNS), (W, FLOATS, COLUMNS), (W, TABLES, CARRIES)
    factor,  # (M, COLUMNS)
    most, slots, draws, vocab,  # scalars: M, S, n, V
    LOGITS: tl.constexpr, COLUMNS: tl.constexpr, CHUNKS: tl.constexpr, CARRIES: tl.constexpr,
    CHUNK_ROUNDS: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """The draft that is picked of each problem, and whether it is accepted."""
    p_law = Rows(Reading(p, p_high, p_first, p_heat, p_scale), p_valid)
    q_law = Rows(Reading(q, q_high, q_first, q_heat, q_scale), q_valid)
    cut: tl.constexpr = Cut(COLUMNS, CHUNKS, CARRIES, CHUNK_ROUNDS)
    node = tl.program_id(0).to(tl.int64)
    if node < tl.load(count) - start:
        nodes += start + node
        tree, slot = tl.load(nodes + TREE * most), tl.load(nodes + SLOT * most)
        p_row, q_row = tl.load(nodes + P_ROW * most), tl.load(nodes + Q_ROW * most)
        base = tree * slots
        lanes = tl.arange(0, LANES)
        level = tl.load(depth + base + slot)
        heirs = tl.load(depth + base + lanes, mask=lanes < slots, other=-1) == level + 1
        above = tl.load(parent + base + lanes, mask=heirs, other=0)
        heirs = heirs & (tl.load(heads + base + above, mask=heirs, other=-1) == slot)
        token = tl.load(tokens + base + lanes, mask=heirs, other=0)
        here = law_of(p_law, p_row, token, vocab, LOGITS)
        there = law_of(q_law, q_row, token, vocab, LOGITS)
        ranks = tl.where(heirs, bucket_of(here, there, COLUMNS - 1), 0)
        own_uniforms = uniforms + tree * 3 * draws
        drawn = own_uniforms + 3 * (lanes - 1)
        entering, drawing = tl.load(drawn, mask=heirs, other=0.0), tl.load(drawn + 1, mask=heirs, other=0.0)
        planes = Planes(
            longs + node * LONGS * COLUMNS, floats + node * FLOATS * COLUMNS, tables + node * TABLES * CARRIES
        )
        places = places_of(ranks, entering, drawing, heirs, planes, cut)
        fraction = tl.load(drawn + 2, mask=heirs, other=0.0)
        fraction = tl.where(heirs & (places == tl.max(places)), fraction, -1.0)
        picked = lanes == tl.argmax(fraction, 0)
        rank = tl.sum(tl.where(picked, ranks, 0))
        per_q = tl.load(factor + (start + node) * COLUMNS + rank)
        proposal = per_q * tl.sum(tl.where(picked, there, 0.0))
        accepted = tl.load(own_uniforms + 3 * (slots - 1 + level)) * proposal < tl.sum(tl.where(picked, here, 0.0))
        next_head = tl.sum(tl.where(picked, tl.load(heads + base + lanes, mask=heirs, other=0), 0))
        tl.store(next_heads + base + slot, tl.where(accepted, next_head, -1))


def pick_by_kernels(
    batch: TreeBatch,
    heads: Heads,
    walk: Walk,
    problems: Problems,
    work: Workspace,
    start: int,
    factor: Tensor,
    uniforms: Tensor,
) -> None:
    """Solve a wave of problems, and pick a draft of each.

    Parameters
    ----------
    batch : TreeBatch
    heads : Heads
    walk : Walk
        Filled in where problems stand.
    problems : Problems
    work : Workspace
    start : int
        The first problem of the wave.
    factor : Tensor of float64, shape (M, buckets + 1)
        Where g/q of the buckets goes.
    uniforms : Tensor of float64, shape (B, n, 3)
    """
    layout, slots = batch.layout, batch.slots
    rows = problems.fields[P_ROW.value], problems.fields[Q_ROW.value]
    fill(work, problems, start, rows, batch.target, batch.draft, batch.logits)
    solve(work, problems, problems.fields[DRAFTS.value], start, factor)
    pick[(len(work.longs),)](
        *spread(batch.target), *spread(batch.draft), layout.parent, layout.depth, heads.heads, batch.tokens, uniforms,
        walk.next_heads, problems.fields, problems.listed, start, work.longs, work.floats, work.tables, factor,
        problems.fields.shape[1], slots, uniforms.shape[1], batch.vocab, LOGITS=batch.logits,
        **cut_for(problems.most)._asdict(), LANES=lanes(slots), **EXACT,
    )  # fmt: skip
