"""Tokens of trees in groups by Triton's kernels: histograms of all laws of slots, and their totals, in one pass.

Tokens are in groups by p/q of the laws as they came (`tensors.groups.bucket`), so nothing has to be known of these
before.  Each stage has its kernel, and the function that launches it below.

Shapes: N slots of all trees, B * S; laws have R and R' rows of V tokens; there are k = GROUPS groups, whatever V is.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from otspec.verification.tensors import groups as tensor_groups
from otspec.verification.tensors.groups import SORTED, Groups, group_count
from otspec.verification.tensors.row_kernels import law_of, units_of
from otspec.verification.tensors.rows import BLOCK, DRIFT, EXACT, Reading, Rows, lanes, read_scaled, spread
from otspec.verification.trees.layout import Layout

PIECES = tl.constexpr(tuple(number for piece in tensor_groups.PIECES for number in piece))
NUMBERS = tl.constexpr(len(PIECES.value))
RARE, LESS, MORE = (tl.constexpr(bound) for bound in (tensor_groups.RARE, tensor_groups.LESS, tensor_groups.MORE))
GROUPS = tl.constexpr(group_count(SORTED + 1))
MOST_TILES, ENOUGH = 32, 8192
"""Of programs that put tokens into groups: how often they read some at most, and how many there are before they do."""


@triton.jit
def bucket_of(digits):  # (LANES,): of p/q as a float32
    """The bucket of p/q, from its float32."""
    found = tl.zeros_like(digits)
    for i in tl.static_range(0, NUMBERS, 3):
        found += tl.minimum(tl.maximum((digits >> PIECES[i]) - PIECES[i + 1], 0), PIECES[i + 2])
    return found


@triton.jit
def quotient(p, q, known):  # (LANES,)
    """The digits of p/q, where it is known: those of 1 elsewhere."""
    return tl.div_rn(tl.where(known, p, 1.0), tl.where(known, q, 1.0)).to(tl.int32, bitcast=True)


@triton.jit
def as_it_came(
    entries,  # (R, V)
    row, tokens,  # (LANES,), or a scalar row
    vocab,  # scalar
):  # fmt: skip
    """Probabilities of some tokens of a row, before they are divided by their total."""
    return tl.load(entries + row.to(tl.int64) * vocab + tokens, mask=tokens < vocab, other=0.0)


@triton.jit
def group_of(
    target, draft,  # `Rows`
    p_row, q_row, tokens,  # (LANES,), or scalar rows
    vocab,  # scalar
):  # fmt: skip
    """`groups.group` of large vocabularies, operation by operation, as `add_to_groups` has it."""
    there = as_it_came(draft.read.entries, q_row, tokens, vocab)
    mine, theirs = as_it_came(target.read.entries, p_row, tokens, vocab).to(tl.float32), there.to(tl.float32)
    rare = (mine < RARE) & (theirs < RARE)
    digits = tl.where(rare, tl.where(mine < theirs, LESS, MORE), quotient(mine, theirs, (there > 0) & ~rare))
    return tl.where(there > 0, bucket_of(digits), GROUPS).to(tl.int64)


@triton.jit
def row_of(
    rows,  # (N,)
    place, count,  # scalars: the slot, and how many rows there are
):  # fmt: skip
    """The row of a slot, or another one that exists."""
    return tl.minimum(tl.maximum(tl.load(rows + place), 0), count - 1).to(tl.int64)


@triton.jit
def steps_of(law, few):  # (LANES,)
    """Those of probabilities that are few, in steps of 2**-52 (`groups.STEP`), of doubles in units; 0 for others."""
    if law.dtype == tl.float64:
        steps = units_of(tl.where(few, tl.abs(law), 0.0))  # the sign is that of 0
    else:
        steps = (tl.where(few, tl.abs(law.to(tl.float32)), 0.0) * 4503599627370496.0 + 0.5).to(tl.uint32).to(tl.int64)
    return steps


@triton.jit
def steps_as_units(
    steps,  # (LANES,), or scalar
    DOUBLE: tl.constexpr,
):  # fmt: skip
    """What they are in units."""
    if not DOUBLE:
        steps = steps << 10
    return steps


@triton.jit
def all_units_of(law):  # (LANES,)
    """Probabilities as they came, in units, rounded down where they were no doubles; too much of what is none."""
    if law.dtype == tl.float64:
        units = units_of(tl.where(law >= 0, tl.minimum(law, 1.5), 1.5))
    else:
        known = law.to(tl.float32)
        units = (tl.where(known >= 0, tl.minimum(known, 1.5), 1.5) * 4611686018427387904.0).to(tl.int64)
    return units


@triton.jit
def add_eight(a, b, c, d, e, f, g, h, i, j, k, m, n, o, p, q):  # scalars
    """Eight sums: each by itself waits as long as all together."""
    return a + i, b + j, c + k, d + m, e + n, f + o, g + p, h + q


@triton.jit
def put_rare(
    sums,  # (k + 2,)
    digits, amount,  # scalars
):  # fmt: skip
    """Add what rare tokens add up to into the group of all that are on one side of 1."""
    group = bucket_of(tl.full((), digits, tl.int32))
    tl.atomic_add(sums + group, amount, mask=amount > 0, sem="relaxed")


@triton.jit
def add_to_groups(
    p, q,  # (R, V), (R', V)
    p_rows, q_rows, children, depths,  # (N,)
    target, size,  # (N, k + 2)
    p_count, q_count, vocab,  # scalars: R, R', V
    BLOCK: tl.constexpr, TILES: tl.constexpr,
):  # fmt: skip
    """Histograms of p and q over the groups of each slot, as they came, in units, and their totals after them.

    The totals are in units, which run over if it is no law, and in a million of them, which do not, and show that.
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
            drafted = there > 0  # what is not is in the last group, and its p is not read
            amount, length = all_units_of(here), all_units_of(there)
            length |= drafted.to(tl.int64)
            group = bucket_of(quotient(here.to(tl.float32), there.to(tl.float32), drafted))
            tl.atomic_add(target + group, amount, mask=drafted & (amount > 0), sem="relaxed")
            tl.atomic_add(size + group, length, mask=drafted, sem="relaxed")
            total_mine += amount
            total_theirs += length
            coarse_mine += amount >> 20
            coarse_theirs += length >> 20
        (
            less_mine, more_mine, less_theirs, more_theirs, total_mine, total_theirs, coarse_mine, coarse_theirs,
        ) = tl.reduce(
            (
                drafted_mine - more_mine, more_mine, all_theirs - more_theirs, more_theirs,
                total_mine, total_theirs, coarse_mine, coarse_theirs,
            ), 0, add_eight,
        )  # fmt: skip
        put_rare(target, LESS, steps_as_units(less_mine, p_double))
        put_rare(target, MORE, steps_as_units(more_mine, p_double))
        put_rare(size, LESS, steps_as_units(less_theirs, q_double))
        put_rare(size, MORE, steps_as_units(more_theirs, q_double))
        tl.atomic_add(target + GROUPS, total_mine, sem="relaxed")
        tl.atomic_add(size + GROUPS, total_theirs, sem="relaxed")
        tl.atomic_add(target + GROUPS + 1, coarse_mine, sem="relaxed")
        tl.atomic_add(size + GROUPS + 1, coarse_theirs, sem="relaxed")


def group_by_kernels(target: Tensor, draft: Tensor, target_row: Tensor, draft_row: Tensor, layout: Layout) -> Groups:
    """The groups of all slots, B * S, of laws as they came; see `groups.grouped`.

    Parameters
    ----------
    target, draft : Tensor, shape (R, V), (R', V)
    target_row, draft_row : Tensor of int64, shape (B, S)
    layout : Layout
    """
    counts = _histograms(target, draft, target_row, draft_row, layout)
    return Groups(*counts[:, :, : GROUPS.value])


def _histograms(target: Tensor, draft: Tensor, target_row: Tensor, draft_row: Tensor, layout: Layout) -> Tensor:
    """Sums of p and q over the groups of all slots, and over all tokens, twice, shape (2, B * S, k + 2)."""
    vocab, pairs = target.shape[1], target_row.numel()
    counts = torch.zeros((2, pairs, GROUPS.value + 2), dtype=torch.int64, device=target.device)
    block, tiles = 256, MOST_TILES  # as quick as it gets in the interpreter
    if target.device.type == "cuda":
        # Of a warp the slowest lane is slow, of several that of all; and more than one token to a thread would be added
        # up by rows or by columns, and all numbers made twice.
        block = 32
        while tiles > 1 and pairs * -(-vocab // (block * tiles)) < ENOUGH:
            tiles //= 2
    add_to_groups[(pairs, -(-vocab // (block * tiles)))](
        target.contiguous(), draft.contiguous(), target_row, draft_row, layout.children.contiguous(),
        layout.depth.contiguous(), *counts, len(target), len(draft), vocab, BLOCK=block,
        TILES=tiles, num_warps=max(block // 32, 1), **EXACT,
    )  # fmt: skip
    return counts


@triton.jit
def finish_row(
    sums,  # (k + 2,)
    rows,  # (N,)
    place, count,  # scalars: the slot, and how many rows there are
    scales, valid,  # (R,)
    DRIFT: tl.constexpr,
):  # fmt: skip
    """Whether a slot's row is a law, by its total, and what it is multiplied by to add up to 1."""
    total = tl.load(sums + GROUPS).to(tl.float64) / 4611686018427387904.0
    about = tl.load(sums + GROUPS + 1).to(tl.float64) / 4398046511104.0
    right = (tl.abs(total - 1.0) <= DRIFT) & (about < 2)
    row = tl.load(rows + place)
    there = (row >= 0) & (row < count)
    tl.store(scales + row, 1.0 / tl.where(right, total, 1.0), mask=there)
    tl.store(valid + row, right.to(tl.int8), mask=there)
    return (right & there).to(tl.int32)


@triton.jit
def finish_groups(
    target, size,  # (N, k + 2)
    p_rows, q_rows, children, depths,  # (N,)
    p_scale, p_valid,  # (R,)
    q_scale, q_valid,  # (R',)
    p_count, q_count,  # scalars: R, R'
    P_DRIFT: tl.constexpr, Q_DRIFT: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """`finish_totals`, by the totals of the slots' groups.  Slots whose laws are none have one token that is drawn."""
    pair = tl.program_id(0)
    if tl.load(depths + pair) >= 0:
        target += pair.to(tl.int64) * (GROUPS + 2)
        size += pair.to(tl.int64) * (GROUPS + 2)
        right = finish_row(target, p_rows, pair, p_count, p_scale, p_valid, P_DRIFT)
        if tl.load(children + pair) > 0:
            right *= finish_row(size, q_rows, pair, q_count, q_scale, q_valid, Q_DRIFT)
            groups = tl.arange(0, LANES)
            one = tl.where(groups == 0, tl.full([LANES], 4611686018427387904, tl.int64), 0)
            replaced = groups < tl.where(right > 0, 0, GROUPS)
            tl.store(target + groups, one, mask=replaced)
            tl.store(size + groups, one, mask=replaced)


def check_by_groups(
    target: Tensor, draft: Tensor, target_row: Tensor, draft_row: Tensor, layout: Layout
) -> tuple[Rows, Rows, Groups]:
    """What slots have as laws, as `checked_rows` has them, and their groups, in one pass over both.

    Of rows that no slot has nothing is known.

    Parameters
    ----------
    target, draft : Tensor, shape (R, V), (R', V)
    target_row, draft_row : Tensor of int64, shape (B, S)
    layout : Layout
    """
    target, draft = target.contiguous(), draft.contiguous()
    counts = _histograms(target, draft, target_row, draft_row, layout)
    count, device = GROUPS.value, target.device
    scales = [torch.empty(len(law), dtype=torch.float64, device=device) for law in (target, draft)]
    valid = [torch.empty(len(law), dtype=torch.int8, device=device) for law in (target, draft)]
    finish_groups[(target_row.numel(),)](
        *counts, target_row, draft_row, layout.children.contiguous(), layout.depth.contiguous(),
        scales[0], valid[0], scales[1], valid[1], len(target), len(draft), P_DRIFT=DRIFT[target.dtype],
        Q_DRIFT=DRIFT[draft.dtype], LANES=lanes(count), **EXACT,
    )  # fmt: skip
    p, q = (
        Rows(read_scaled(law, scale), right.view(torch.bool))
        for law, scale, right in zip((target, draft), scales, valid, strict=True)
    )
    return p, q, Groups(*counts[:, :, :count])


@triton.jit
def find_groups(
    p, p_high, p_first, p_heat, p_scale, p_valid,  # (R, V), and of `Rows` (R,)
    q, q_high, q_first, q_heat, q_scale, q_valid,  # (R', V), and of `Rows` (R',)
    p_rows, q_rows, parents, drafts,  # (N,)
    p_at, q_at, group_at,  # (N,)
    count, slots, vocab,  # scalars: N, S, V
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Both laws and the group of the tokens of all slots, after their parents."""
    target = Rows(Reading(p, p_high, p_first, p_heat, p_scale), p_valid)
    draft = Rows(Reading(q, q_high, q_first, q_heat, q_scale), q_valid)
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    valid = lanes < count
    parent = lanes // slots * slots + tl.load(parents + lanes, mask=valid, other=0)
    p_row, q_row = tl.load(p_rows + parent, mask=valid, other=0), tl.load(q_rows + parent, mask=valid, other=0)
    tokens = tl.load(drafts + lanes, mask=valid, other=0)
    here = law_of(target, p_row, tokens, vocab, False)
    there = law_of(draft, q_row, tokens, vocab, False)
    tl.store(p_at + lanes, here, mask=valid)
    tl.store(q_at + lanes, there, mask=valid)
    group = group_of(target, draft, p_row, q_row, tokens, vocab)
    tl.store(group_at + lanes, group, mask=valid)


def groups_at_by_kernels(
    target: Rows, draft: Rows, target_row: Tensor, draft_row: Tensor, layout: Layout, tokens: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """p and q of the tokens of all slots, shape (B * S,), under the rows of their parents, and their groups.

    Parameters
    ----------
    target, draft : Rows
    target_row, draft_row : Tensor of int64, shape (B, S)
    layout : Layout
    tokens : Tensor of int64, shape (B, S)
    """
    device, vocab, count = target.read.entries.device, target.vocab, tokens.numel()
    p, q = torch.empty((2, count), dtype=torch.float64, device=device)
    groups = torch.empty(count, dtype=torch.int64, device=device)
    find_groups[(-(-count // BLOCK),)](
        *spread(target), *spread(draft), target_row, draft_row, layout.parent.contiguous(), tokens.contiguous(),
        p, q, groups, count, tokens.shape[1], vocab, BLOCK=min(BLOCK, lanes(count)), **EXACT,
    )  # fmt: skip
    return p, q, groups
