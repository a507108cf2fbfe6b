"""Token by token by Triton's kernels: drafted trees, and rows, which are trees of one level."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from otspec.verification.rules.buckets import buckets
from otspec.verification.rules.buckets import launch as by_bucket_kernels
from otspec.verification.rules.buckets.launch import (
    Problems,
    Room,
    fill,
    room_for,
    solve,
    taken_by,
)
from otspec.verification.tensors.reading import BLOCK, EXACT, Reading, Rows, kernels_for, lanes, spread
from otspec.verification.trees.layout import Layout, branching_layout

STAGE = 16
"""Problems of one tree that are solved before the walk goes on.  Those that it does not come to are solved in vain, and
those that wait for it are solved one after the other."""
GROUP = 1024
"""Rows that are worked on together: g/q of the buckets of each is a hundred kilobytes."""
TOGETHER = 256
"""Slots that one program looks at together."""


class Trees(NamedTuple):
    """What is drafted, and the laws."""

    layout: Layout
    target: Rows
    target_row: Tensor
    """Shape (B, S), int64."""
    draft: Rows
    draft_row: Tensor
    """Shape (B, S), int64; any row where a slot has no children."""
    tokens: Tensor
    """Shape (B, S), int64."""
    logits: bool = False
    """Whether values are logits."""
    leaves: bool = True
    """Whether there is a target law after a slot without children."""

    @property
    def vocab(self) -> int:
        """V."""
        return self.target.read.values.shape[1]

    @property
    def reads(self) -> tuple[Tensor, ...]:
        """What kernels take to read the laws."""
        return *spread(self.target), *spread(self.draft)


class TreesWalked(NamedTuple):
    """What is put out of each tree."""

    slots: Tensor
    """Shape (B, L): the accepted slots from level 1 on; -1 after the last, and in trees that are not sound."""
    tokens: Tensor
    """Shape (B, L): their tokens; -1 likewise."""
    token: Tensor
    """Shape (B,): the token after them; 0 in trees that are not sound, and after a leaf that has no law."""


def find_sound(trees: Trees) -> tuple[Tensor, Trees]:
    """Which trees can be verified, shape (B,): links, laws and tokens; and trees whose rows and tokens there are.

    The latter are the same where they can be verified.  Others may be worked on as well, in place of a branch.
    """
    count, slots = trees.tokens.shape
    layout, device = trees.layout, trees.tokens.device
    sound = torch.empty(count, dtype=torch.int8, device=device)
    safe = torch.empty((3, count, slots), dtype=torch.int64, device=device)
    _kernels(trees).find_sound[(count,)](
        *trees.reads, layout.sound.view(torch.int8), layout.parent, layout.depth, layout.children,
        trees.target_row, trees.draft_row, trees.tokens, sound, *safe, slots, len(trees.target.sound),
        len(trees.draft.sound), trees.vocab, LOGITS=trees.logits, LEAVES=trees.leaves,
        LANES=min(lanes(slots), TOGETHER), **EXACT,
    )  # fmt: skip
    target_row, draft_row, tokens = safe
    return sound.view(torch.bool), trees._replace(target_row=target_row, draft_row=draft_row, tokens=tokens)


def walk_by_kernels(trees: Trees, sound: Tensor, uniforms: Tensor) -> TreesWalked:
    """Accept token by token while a slot agrees with what was accepted, by buckets.

    As `verify_token_wise` of `tensors`, but for roundings where a text has a single draft.

    Parameters
    ----------
    trees : Trees
    sound : Tensor of bool, shape (B,)
        Others are left out.
    uniforms : Tensor of float64, shape (B, n, 3)
        Row s - 1 is for slot s, row S - 1 + i for the token after i accepted ones, and the last one for the token after
        a whole path.
    """
    kernels, layout = _kernels(trees), trees.layout
    uniforms = uniforms.contiguous()
    count, slots = trees.tokens.shape
    device, draws, vocab = uniforms.device, uniforms.shape[1], trees.vocab
    read = sound.view(torch.int8)
    heads, drafts, p_rows, q_rows, heirs, numbers = torch.empty((6, count, slots), dtype=torch.int64, device=device)
    line, taken = torch.empty((2, count, layout.length), dtype=torch.int64, device=device)
    stages = stages_of([level.slots.shape[1] for level in layout.levels], slots)
    state = torch.zeros(2 * count + len(stages), dtype=torch.int64, device=device)
    at, refused, counts = state[:count], state[count : 2 * count], state[2 * count :]
    kernels.find_heads[(count, slots)](
        layout.parent, layout.depth, layout.children, trees.tokens, trees.target_row, trees.draft_row, heads, drafts,
        p_rows, q_rows, slots, APART=not trees.leaves, LANES=min(lanes(slots), TOGETHER), **EXACT,
    )  # fmt: skip

    most = max(level.slots.shape[1] for level in layout.levels)
    total = count * sum(stage.problems for stage in stages)
    factor = torch.empty((total, buckets.count(most) + 1), dtype=torch.float64, device=device)
    room = room_for(min(by_bucket_kernels.WAVE, count * max(stage.problems for stage in stages)), most, device)
    offset = 0
    for number, stage in enumerate(stages):
        held = count * stage.problems
        problems = Problems(
            torch.empty((kernels.FIELDS.value, held), dtype=torch.int64, device=device), counts[number:], most
        )
        kernels.enlist[(count,)](
            *trees.reads, read, layout.parent, layout.depth, heads, drafts, p_rows, q_rows, trees.tokens, uniforms, at,
            refused, heirs, numbers, problems.fields, problems.listed, held, offset, stage.begin, stage.end, slots,
            draws, vocab, LOGITS=trees.logits, LANES=lanes(slots), **EXACT,
        )  # fmt: skip
        for start in range(0, held, by_bucket_kernels.WAVE):
            _solve_and_pick(trees, problems, room, start, uniforms, heads, heirs, factor[offset:])
        kernels.walk[(count,)](
            read, heads, drafts, heirs, trees.tokens, at, refused, line, taken, stage.begin, stage.end, slots,
            LENGTH=layout.length, num_warps=1, **EXACT,
        )  # fmt: skip
        offset += held

    chunks = -(-vocab // BLOCK)
    left, whole = torch.empty((2, count, chunks), dtype=torch.int64, device=device)
    token = torch.empty(count, dtype=torch.int64, device=device)
    fixed = {"LOGITS": trees.logits, "LEAVES": trees.leaves, "BLOCK": BLOCK, **taken_by("sum_left", most), **EXACT}
    kernels.sum_left[(count, chunks)](
        *trees.reads, factor, read, p_rows, q_rows, numbers, at, refused, left, whole, slots, vocab, **fixed
    )
    kernels.draw_left[(count,)](
        *trees.reads, factor, read, p_rows, q_rows, numbers, layout.depth, at, refused, left, whole, uniforms, token,
        slots, draws, chunks, vocab, **fixed, LANES=lanes(chunks),
    )  # fmt: skip
    return TreesWalked(line, taken, token)


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
        columns = (*target.read, target.sound, *draft.read, draft.sound, drafts, uniforms)
        found = [
            verify_rows_by_kernels(
                Rows(Reading(*part[:5]), part[5]), Rows(Reading(*part[6:11]), part[11]), part[12], part[13], logits
            )
            for part in zip(*(column.split(GROUP) for column in columns), strict=True)
        ]
        tokens, accepted, right = (torch.cat(parts) for parts in zip(*found, strict=True))
        return tokens, accepted, right
    row = torch.arange(rows, device=drafts.device)[:, None].expand(-1, n + 1).contiguous()
    trees = Trees(
        branching_layout((n,), rows, drafts.device), target, row, draft, row,
        torch.nn.functional.pad(drafts, (1, 0)), logits, leaves=False,
    )  # fmt: skip
    right, _ = find_sound(trees)
    walked = walk_by_kernels(trees, right, uniforms)
    slot = walked.slots[:, 0]
    return torch.where(slot > 0, walked.tokens[:, 0], walked.token), torch.where(slot > 0, slot - 1, -1), right


class Stage(NamedTuple):
    """Levels that are walked together."""

    begin: int
    end: int
    problems: int
    """Of each tree, at most."""


def stages_of(widths: Sequence[int], slots: int, most: int | None = None) -> list[Stage]:
    """Levels from the root on, cut so that each stage has few problems: heads with two drafts or more.

    Parameters
    ----------
    widths : sequence of int
        Slots of each level at most, the root's first.
    slots : int
        S.
    most : int, optional
        Problems of one stage, if it has several levels; by default `STAGE`.
    """
    most = STAGE if most is None else most
    stages = [Stage(0, 0, 0)]
    for level, width in enumerate(widths[:-1]):
        several = min(width, widths[level + 1] // 2)
        begin, end, problems = stages[-1]
        if end > begin and min(problems + several, (slots - 1) // 2) > most:
            stages.append(Stage(level, level, 0))
            begin, end, problems = stages[-1]
        # A stage begins at a single head, the one that the walk has come to.
        problems += min(several, 1) if level == begin else several
        stages[-1] = Stage(begin, level + 1, min(problems, (slots - 1) // 2))
    return stages


def _solve_and_pick(
    trees: Trees, problems: Problems, room: Room, start: int, uniforms: Tensor, heads: Tensor, heirs: Tensor,
    factor: Tensor,
) -> None:  # fmt: skip
    """Solve a wave of problems, and pick a draft of each."""
    kernels, layout = _kernels(trees), trees.layout
    drafts = problems.fields[kernels.DRAFTS.value]
    rows = problems.fields[kernels.P_ROW.value], problems.fields[kernels.Q_ROW.value]
    fill(room, problems, start, rows, trees.target, trees.draft, trees.logits)
    solve(room, problems, drafts, start, factor)
    slots = trees.tokens.shape[1]
    kernels.pick[(len(room.longs),)](
        *trees.reads, layout.parent, layout.depth, heads, trees.tokens, uniforms, heirs, problems.fields,
        problems.listed, start, room.longs, room.floats, room.tables, factor, problems.fields.shape[1], slots,
        uniforms.shape[1], trees.vocab, LOGITS=trees.logits, **taken_by("pick", problems.most),
        LANES=lanes(slots), **EXACT,
    )  # fmt: skip


def _kernels(trees: Trees) -> Any:
    kernels_for(trees.target.read.values)  # says what is missing
    from otspec.verification.rules.token_wise import kernels as token_kernels

    return token_kernels
