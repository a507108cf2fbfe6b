"""Token by token by Triton's kernels: drafted trees, and rows, which are trees of one level.

A walk goes from head to head (`picking_kernels`), stage after stage; where it has ended, one sum and one draw over the
vocabulary give the token after it.

Shapes: B trees of S slots, M problems; uniforms are (B, n, 3), n draws; laws are cut into chunks of BLOCK tokens.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from otspec.verification.rules.buckets import buckets, cut
from otspec.verification.rules.buckets.cut import Problems, workspace_for
from otspec.verification.rules.buckets.solving_kernels import bucket_of
from otspec.verification.rules.token_wise.picking_kernels import (
    FIELDS,
    Heads,
    Walk,
    find_heads_by_kernels,
    pick_by_kernels,
    queue_by_kernels,
)
from otspec.verification.rules.token_wise.stages import stages_of
from otspec.verification.tensors.row_kernels import chunk_of, drawn_from, law_of, units_of
from otspec.verification.tensors.rows import BLOCK, EXACT, Reading, Rows, lanes, spread
from otspec.verification.trees.batch import TreeBatch, TreeVerification
from otspec.verification.trees.layout import branching_layout
from otspec.verification.trees.validity_kernels import validate_by_kernels

GROUP = 1024
"""Rows that are worked on together: g/q of the buckets of each is a hundred kilobytes."""


@triton.jit
def walk(
    valid,  # (B,)
    heads, drafts, next_heads, tokens,  # (B, S)
    at, refused,  # (B,)
    line, taken,  # (B, L)
    begin, end, slots,  # scalars: levels, S
    LENGTH: tl.constexpr,
):  # fmt: skip
    """From head to head, over some levels."""
    tree = tl.program_id(0).to(tl.int64)
    base = tree * slots
    head = tl.load(at + tree)
    ended = tl.load(refused + tree)
    read = tl.load(valid + tree) != 0
    for level in range(begin, end):
        goes = read & (ended == 0) & (tl.load(drafts + base + head) > 0)
        next_head = tl.load(next_heads + base + head, mask=goes, other=-1)
        ended = tl.where(goes & (next_head < 0), 1, ended)
        tl.store(line + tree * LENGTH + level, next_head)
        tl.store(taken + tree * LENGTH + level, tl.load(tokens + base + next_head, mask=next_head >= 0, other=-1))
        head = tl.where(next_head >= 0, next_head, head)
    tl.store(at + tree, head)
    tl.store(refused + tree, ended)


@triton.jit
def left_of(
    p_law, q_law,  # `Rows`
    factor,  # (M, COUNT + 1)
    p_row, q_row, number, refused,  # scalars
    tokens,  # (BLOCK,)
    vocab,  # scalar
    LOGITS: tl.constexpr, COUNT: tl.constexpr,
):  # fmt: skip
    """(p - g)+ of some tokens where a draft was refused, else p; and p: in units."""
    here = law_of(p_law, p_row, tokens, vocab, LOGITS)
    left = here
    if refused:
        there = law_of(q_law, q_row, tokens, vocab, LOGITS)
        if number >= 0:
            bucket = bucket_of(here, there, COUNT)
            there = there * tl.load(factor + number * (COUNT + 1) + bucket)
        left = tl.maximum(here - there, 0.0)
    return units_of(left), units_of(here)


@triton.jit
def sum_left(
    p, p_high, p_first, p_heat, p_scale, p_valid,  # (R, V), and of `Rows` (R,)
    q, q_high, q_first, q_heat, q_scale, q_valid,  # (R', V), and of `Rows` (R',)
    factor,  # (M, COUNT + 1)
    valid,  # (B,)
    p_rows, q_rows, numbers,  # (B, S)
    at, refused,  # (B,)
    left, whole,  # (B, chunks)
    slots, vocab,  # scalars
    LOGITS: tl.constexpr, COUNT: tl.constexpr, LEAVES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Sums over each chunk of the law that the last token is drawn from, and of p."""
    p_law = Rows(Reading(p, p_high, p_first, p_heat, p_scale), p_valid)
    q_law = Rows(Reading(q, q_high, q_first, q_heat, q_scale), q_valid)
    tree, chunk = tl.program_id(0).to(tl.int64), tl.program_id(1)
    ended = tl.load(refused + tree) != 0
    if (tl.load(valid + tree) != 0) & (ended | LEAVES):
        slot = tree * slots + tl.load(at + tree)
        tokens = chunk * BLOCK + tl.arange(0, BLOCK)
        rest, mine = left_of(
            p_law, q_law, factor, tl.load(p_rows + slot), tl.load(q_rows + slot), tl.load(numbers + slot), ended,
            tokens, vocab, LOGITS, COUNT,
        )  # fmt: skip
        tl.store(left + tree * tl.num_programs(1) + chunk, tl.sum(rest))
        tl.store(whole + tree * tl.num_programs(1) + chunk, tl.sum(mine))


@triton.jit
def draw_left(
    p, p_high, p_first, p_heat, p_scale, p_valid,  # (R, V), and of `Rows` (R,)
    q, q_high, q_first, q_heat, q_scale, q_valid,  # (R', V), and of `Rows` (R',)
    factor,  # (M, COUNT + 1)
    valid,  # (B,)
    p_rows, q_rows, numbers, depth,  # (B, S)
    at, refused,  # (B,)
    left, whole,  # (B, chunks)
    uniforms,  # (B, n, 3)
    token,  # (B,)
    slots, draws, chunks, vocab,  # scalars: S, n, chunks, V
    LOGITS: tl.constexpr, COUNT: tl.constexpr, LEAVES: tl.constexpr, BLOCK: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """The token after what is accepted; 0 in trees that are not valid, and where leaves have no laws."""
    p_law = Rows(Reading(p, p_high, p_first, p_heat, p_scale), p_valid)
    q_law = Rows(Reading(q, q_high, q_first, q_heat, q_scale), q_valid)
    tree = tl.program_id(0).to(tl.int64)
    ended = tl.load(refused + tree) != 0
    drawn = tl.zeros([], tl.int64)
    if (tl.load(valid + tree) != 0) & (ended | LEAVES):
        slot = tree * slots + tl.load(at + tree)
        lanes = tl.arange(0, LANES)
        inside = lanes < chunks
        rest = tl.load(left + tree * chunks + lanes, mask=inside, other=0)
        mine = tl.load(whole + tree * chunks + lanes, mask=inside, other=0)
        spent = tl.sum(rest) == 0  # refused, and nothing is left of p, by rounding: a draw from p itself
        sums = tl.where(spent, mine, rest)
        total = tl.sum(sums)
        row = tl.where(ended, slots - 1 + tl.load(depth + slot), draws - 1)
        uniform = tl.load(uniforms + (tree * draws + row) * 3 + 1)
        chunk, point = chunk_of(sums, lanes, total, uniform, chunks)
        begin = chunk * BLOCK
        rest, mine = left_of(
            p_law, q_law, factor, tl.load(p_rows + slot), tl.load(q_rows + slot), tl.load(numbers + slot), ended,
            begin + tl.arange(0, BLOCK), vocab, LOGITS, COUNT,
        )  # fmt: skip
        drawn = tl.minimum(drawn_from(tl.where(spent, mine, rest), begin, point), vocab - 1)
    tl.store(token + tree, drawn)


class Walked(NamedTuple):
    """What is put out of each tree, but for how many tokens are accepted."""

    slots: Tensor
    """Shape (B, L), int64: the accepted slots from level 1 on; -1 after the last, and in trees that are not valid."""
    tokens: Tensor
    """Shape (B, L), int64: their tokens; -1 likewise."""
    token: Tensor
    """Shape (B,), int64: the token after them; 0 in trees that are not valid, and after a leaf that has no law."""


def walk_by_kernels(batch: TreeBatch, uniforms: Tensor) -> Walked:
    """Accept token by token while a slot agrees with what was accepted, by buckets.

    As `token_wise.tensors.verify_token_wise`, but for roundings where a text has a single draft.

    Parameters
    ----------
    batch : TreeBatch
        Its laws may be logits, and its leaves without laws: the token after one is then 0.
    uniforms : Tensor of float64, shape (B, n, 3)
        Row s - 1 is for slot s, row S - 1 + i for the token after i accepted ones, and the last one for the token after
        a whole path.
    """
    layout, uniforms = batch.layout, uniforms.contiguous()
    count, slots = batch.tokens.shape
    device, draws, vocab = uniforms.device, uniforms.shape[1], batch.vocab
    valid = batch.valid.view(torch.int8)
    head, drafts, p_rows, q_rows, next_heads, numbers = torch.empty((6, count, slots), dtype=torch.int64, device=device)
    line, taken = torch.empty((2, count, layout.length), dtype=torch.int64, device=device)
    stages = stages_of([level.slots.shape[1] for level in layout.levels], slots)
    state = torch.zeros(2 * count + len(stages), dtype=torch.int64, device=device)
    at, refused, counts = state[:count], state[count : 2 * count], state[2 * count :]
    heads, walked = Heads(head, drafts, p_rows, q_rows), Walk(at, refused, next_heads, numbers)
    find_heads_by_kernels(batch, heads)

    most = max(level.slots.shape[1] for level in layout.levels)
    total = count * sum(stage.problems for stage in stages)
    factor = torch.empty((total, buckets.count(most) + 1), dtype=torch.float64, device=device)
    work = workspace_for(min(cut.WAVE, count * max(stage.problems for stage in stages)), most, device)
    offset = 0
    for number, stage in enumerate(stages):
        held = count * stage.problems
        fields = torch.empty((FIELDS.value, held), dtype=torch.int64, device=device)
        problems = Problems(fields, counts[number:], most)
        queue_by_kernels(batch, heads, walked, problems, offset, stage, uniforms)
        for start in range(0, held, cut.WAVE):
            pick_by_kernels(batch, heads, walked, problems, work, start, factor[offset:], uniforms)
        walk[(count,)](
            valid, head, drafts, next_heads, batch.tokens, at, refused, line, taken, stage.begin, stage.end, slots,
            LENGTH=layout.length, num_warps=1, **EXACT,
        )  # fmt: skip
        offset += held

    chunks = -(-vocab // BLOCK)
    left, whole = torch.empty((2, count, chunks), dtype=torch.int64, device=device)
    token = torch.empty(count, dtype=torch.int64, device=device)
    fixed = {"LOGITS": batch.logits, "COUNT": factor.shape[1] - 1, "LEAVES": batch.leaves, "BLOCK": BLOCK, **EXACT}
    laws = (*spread(batch.target), *spread(batch.draft), factor, valid, p_rows, q_rows, numbers)
    sum_left[(count, chunks)](*laws, at, refused, left, whole, slots, vocab, **fixed)
    draw_left[(count,)](
        *laws, layout.depth, at, refused, left, whole, uniforms, token, slots, draws, chunks, vocab, **fixed,
        LANES=lanes(chunks),
    )  # fmt: skip
    return Walked(line, taken, token)


def verify_trees_by_kernels(batch: TreeBatch, uniforms: Tensor) -> TreeVerification:
    """Trees token by token; `uniforms` has shape (B, S + L, 3)."""
    found = walk_by_kernels(batch, uniforms)
    return TreeVerification(found.slots, found.tokens, (found.slots >= 0).sum(dim=1), found.token, batch.valid)


def verify_rows_by_kernels(
    target: Rows, draft: Rows, drafts: Tensor, uniforms: Tensor, logits: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Output token of each row, which draft it is, or -1, and whether the row was a problem; shapes (B,).

    Parameters
    ----------
    target, draft : Rows
        B of each.
    drafts : Tensor of int64, shape (B, n)
        Tokens.
    uniforms : Tensor of float64, shape (B, n + 1, 3)
        As `otspec.verification.rules.buckets.buckets.verify_by_buckets` uses them.
    logits : bool
        Whether values are logits.
    """
    rows, n = drafts.shape
    if rows > GROUP:
        columns = (*target.read, target.valid, *draft.read, draft.valid, drafts, uniforms)
        found = [
            verify_rows_by_kernels(
                Rows(Reading(*part[:5]), part[5]), Rows(Reading(*part[6:11]), part[11]), part[12], part[13], logits
            )
            for part in zip(*(column.split(GROUP) for column in columns), strict=True)
        ]
        tokens, accepted, valid = (torch.cat(parts) for parts in zip(*found, strict=True))
        return tokens, accepted, valid
    row = torch.arange(rows, device=drafts.device)[:, None].expand(-1, n + 1).contiguous()
    layout, slots = branching_layout((n,), rows, drafts.device), torch.nn.functional.pad(drafts, (1, 0))
    valid = validate_by_kernels(layout, target, row, draft, row, slots, logits=logits, leaves=False)[0]
    batch = TreeBatch(layout, target, row, draft, row, slots, valid, logits=logits, leaves=False)
    walked = walk_by_kernels(batch, uniforms)
    slot = walked.slots[:, 0]
    return torch.where(slot > 0, walked.tokens[:, 0], walked.token), torch.where(slot > 0, slot - 1, -1), valid
