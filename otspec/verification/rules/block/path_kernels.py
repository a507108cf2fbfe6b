"""Block verification by Triton: what a path needs of its laws, in two passes over them, a kernel to each stage.

Laws are rows of tensors, made where they are read (`row_kernels.law_of`); paths have their row numbers.  The law
that a token has is its draft law, times a factor of the token's group where there are factors (`groups.group`), or all
on the token itself where nothing was drawn.

Shapes: B paths of at most L = LEVELS tokens; laws have R and R' rows of V tokens, in chunks of BLOCK; factors are for
k = GROUPS groups, at F places.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from otspec.verification.rules.block.tensors import Accepted
from otspec.verification.tensors.row_kernels import law_of, units_of
from otspec.verification.tensors.rows import BLOCK, EXACT, Reading, Rows, lanes, spread
from otspec.verification.trees.batch import Line
from otspec.verification.trees.group_kernels import GROUPS, group_of

FINISHED = 16, 8
"""So many levels of a path are finished at once, of which a program reads so many chunks at once: a thread has one."""


class PathUniforms(NamedTuple):
    """Uniform numbers of B paths: where those of its levels are, and that of the token after them."""

    uniforms: Tensor
    """Float64, of any shape: from that of the first level of the first path on."""
    stride: int
    """From path to path."""
    step: int
    """From level to level."""
    last: int
    """From the first of a path to that of the token."""

    @classmethod
    def in_rows(cls, uniforms: Tensor) -> PathUniforms:
        """Of shape (B, L + 1)."""
        count = uniforms.shape[1]
        return cls(uniforms.contiguous(), count, 1, count - 1)


class Laws(NamedTuple):
    """What a kernel has of laws, as it hands it on."""

    target: Rows
    draft: Rows
    factor: Tensor
    """Shape (F, k + 1)."""


class Kind(NamedTuple):
    """What is fixed of laws, as a kernel hands it on."""

    LOGITS: bool
    """Whether the target's entries are logits."""
    POINT: bool
    """Whether the law of a token is all on it."""
    FACTOR: bool
    """Whether draft laws have factors."""


class Step(NamedTuple):
    """What has to be known after so many tokens of a path, of the next one anything after all of them: scalars."""

    p_row: Tensor
    """Shape ()."""
    q_row: Tensor
    """Shape ()."""
    place: Tensor
    """Shape (): whose factors the draft law has."""
    drafted: Tensor
    """Shape (): the next token."""
    weight: Tensor
    """Shape ()."""


@triton.jit
def conditional_law(
    laws,  # `Laws`
    p_row, q_row, place, drafted, tokens,  # (LANES,); or (BLOCK,) tokens, and scalars
    vocab,  # scalar
    kind,  # `Kind`
):  # fmt: skip
    """The law that a token of the path has, at some tokens."""
    if kind.POINT:
        law = (tokens == drafted).to(tl.float64)
    else:
        law = law_of(laws.draft, q_row, tokens, vocab, False)
        if kind.FACTOR:
            group = group_of(laws.target, laws.draft, p_row, q_row, tokens, vocab)
            law = law * tl.load(laws.factor + place * (GROUPS + 1) + group)
    return law


@triton.jit
def weigh(
    p, p_high, p_first, p_heat, p_scale, p_valid,  # (R, V), and of `Rows` (R,)
    q, q_high, q_first, q_heat, q_scale, q_valid,  # (R', V), and of `Rows` (R',)
    factor,  # (F, k + 1)
    p_rows, q_rows, places, drafts,  # (B, L + 1), (B, L), (B, L), (B, L)
    lengths,  # (B,)
    weights,  # (B, L + 1)
    vocab,  # scalar
    LOGITS: tl.constexpr, POINT: tl.constexpr, FACTOR: tl.constexpr, LEVELS: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """The weights of block verification after 0 to L tokens of each path."""
    target = Rows(Reading(p, p_high, p_first, p_heat, p_scale), p_valid)
    laws = Laws(target, Rows(Reading(q, q_high, q_first, q_heat, q_scale), q_valid), factor)
    kind: tl.constexpr = Kind(LOGITS, POINT, FACTOR)
    path = tl.program_id(0)
    lanes = tl.arange(0, LANES)
    level = tl.minimum(lanes, LEVELS - 1)
    drafted = tl.load(drafts + path * LEVELS + level)
    known = tl.minimum(tl.maximum(drafted, 0), vocab - 1)
    p_row = tl.load(p_rows + path * (LEVELS + 1) + level)
    q_row = tl.load(q_rows + path * LEVELS + level)
    here = law_of(target, p_row, known, vocab, LOGITS)
    place = tl.load(places + path * LEVELS + level)
    there = conditional_law(laws, p_row, q_row, place, drafted, known, vocab, kind)
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
def step_of(
    p_rows, q_rows, places, drafts, weights,  # (B, L + 1), (B, L), (B, L), (B, L), (B, L + 1)
    path, level,  # scalars
    LEVELS: tl.constexpr,
):  # fmt: skip
    """The `Step` after so many tokens of a path."""
    last = path * LEVELS + tl.minimum(level, LEVELS - 1)
    at = path * (LEVELS + 1) + level
    p_row, weight = tl.load(p_rows + at), tl.load(weights + at)
    return Step(p_row, tl.load(q_rows + last), tl.load(places + last), tl.load(drafts + last), weight)


@triton.jit
def rest_at(
    laws,  # `Laws`
    step,  # `Step`
    ended,  # scalar: whether that are all tokens of the path
    tokens,  # (BLOCK,)
    vocab,  # scalar
    kind,  # `Kind`
):  # fmt: skip
    """(w p - g)+ after so many tokens of a path, p after all of them; and p: at some tokens, in units."""
    here = law_of(laws.target, step.p_row, tokens, vocab, kind.LOGITS)
    there = conditional_law(laws, step.p_row, step.q_row, step.place, step.drafted, tokens, vocab, kind)
    rest = tl.where(ended, here, tl.maximum(step.weight * here - there, 0.0))
    return units_of(rest), units_of(here)


@triton.jit
def sum_rest_along(
    p, p_high, p_first, p_heat, p_scale, p_valid,  # (R, V), and of `Rows` (R,)
    q, q_high, q_first, q_heat, q_scale, q_valid,  # (R', V), and of `Rows` (R',)
    factor,  # (F, k + 1)
    p_rows, q_rows, places, drafts,  # (B, L + 1), (B, L), (B, L), (B, L)
    lengths,  # (B,)
    weights,  # (B, L + 1)
    rest, whole,  # (B, L + 1, chunks)
    vocab,  # scalar
    LOGITS: tl.constexpr, POINT: tl.constexpr, FACTOR: tl.constexpr, LEVELS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Sums of `rest_at` over each chunk of each level of a path; 0 beyond its end."""
    target = Rows(Reading(p, p_high, p_first, p_heat, p_scale), p_valid)
    laws = Laws(target, Rows(Reading(q, q_high, q_first, q_heat, q_scale), q_valid), factor)
    kind: tl.constexpr = Kind(LOGITS, POINT, FACTOR)
    place, chunk = tl.program_id(0), tl.program_id(1)
    path, level = place // (LEVELS + 1), place % (LEVELS + 1)
    at = place * tl.num_programs(1) + chunk
    length = tl.load(lengths + path)
    if level <= length:
        step = step_of(p_rows, q_rows, places, drafts, weights, path, level, LEVELS)
        tokens = chunk * BLOCK + tl.arange(0, BLOCK)
        left, mine = rest_at(laws, step, level >= length, tokens, vocab, kind)
        tl.store(rest + at, tl.sum(left))
        tl.store(whole + at, tl.sum(mine))
    else:
        nothing = tl.zeros((), dtype=tl.int64)
        tl.store(rest + at, nothing)
        tl.store(whole + at, nothing)


@triton.jit
def later(level, left, other, other_left):  # scalars
    """Of two levels the later one, and what is left there."""
    return tl.where(other > level, other, level), tl.where(other > level, other_left, left)


@triton.jit
def counted(count, most, other, other_most):  # scalars
    """How many there are, and the largest."""
    return count + other, tl.maximum(most, other_most)


@triton.jit
def finish(
    p, p_high, p_first, p_heat, p_scale, p_valid,  # (R, V), and of `Rows` (R,)
    q, q_high, q_first, q_heat, q_scale, q_valid,  # (R', V), and of `Rows` (R',)
    factor,  # (F, k + 1)
    p_rows, q_rows, places, drafts,  # (B, L + 1), (B, L), (B, L), (B, L)
    lengths,  # (B,)
    weights,  # (B, L + 1)
    rest, whole,  # (B, L + 1, chunks)
    uniforms,  # of `PathUniforms`
    accepted, token,  # (B,)
    vocab, chunks, stride, step, last,  # scalars
    LOGITS: tl.constexpr, POINT: tl.constexpr, FACTOR: tl.constexpr, LEVELS: tl.constexpr,
    BLOCK: tl.constexpr, LANES: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """How many tokens of a path are accepted, and the token after them.

    Paths have their uniforms `stride` apart, levels `step`, and the token after them the one at `last`.  ROWS levels
    are finished at once: it is trips to memory and reductions across warps that take long, not what is done with them.
    """
    target = Rows(Reading(p, p_high, p_first, p_heat, p_scale), p_valid)
    laws = Laws(target, Rows(Reading(q, q_high, q_first, q_heat, q_scale), q_valid), factor)
    kind: tl.constexpr = Kind(LOGITS, POINT, FACTOR)
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
    after = step_of(p_rows, q_rows, places, drafts, weights, path, level, LEVELS)
    tl.store(accepted + path, level)

    at = (path * (LEVELS + 1) + level) * chunks + lanes
    spent = remains == 0  # up to rounding: the draw is from p itself
    if spent:
        sums = tl.load(whole + at, mask=inside, other=0)
        total = tl.sum(sums)
    else:
        sums = tl.load(rest + at, mask=inside, other=0)
        total = remains
    # As `chunk_of` and `drawn_from`, but by one reduction in place of two.
    point = tl.minimum((uniform_after * total.to(tl.float64)).to(tl.int64), total - 1)
    sums = tl.cumsum(sums, 0)
    before = inside & (sums <= point)
    chunk, passed = tl.reduce((before.to(tl.int64), tl.where(before, sums, 0)), 0, counted)
    start = tl.minimum(chunk, chunks - 1) * BLOCK
    left, mine = rest_at(laws, after, level >= length, start + tl.arange(0, BLOCK), vocab, kind)
    sums = tl.cumsum(tl.where(spent, mine, left), 0)
    drawn = tl.minimum(start + tl.sum((sums <= point - passed).to(tl.int64)), vocab - 1)
    tl.store(token + path, drawn)


def verify_path_by_kernels(
    line: Line,
    target: Rows,
    draft: Rows | None,
    uniforms: PathUniforms,
    *,
    logits: bool = False,
    factor: Tensor | None = None,
) -> Accepted:
    """`otspec.verification.rules.block.tensors.verify_path` for laws in rows.

    Parameters
    ----------
    line : Line
        The paths; its slots are not read, its places only with factors.
    target : Rows
    draft : Rows, optional
        None if nothing was drawn: the law of a token is then all on it.
    uniforms : PathUniforms
    logits : bool
        Whether the target's entries are logits.
    factor : Tensor, shape (F, k + 1), optional
        What the draft laws are multiplied by, for the groups of tokens.
    """
    paths, levels = line.tokens.shape
    device, vocab = line.tokens.device, target.vocab
    chunks = -(-vocab // BLOCK)
    weights = torch.empty((paths, levels + 1), dtype=torch.float64, device=device)
    rows = (line.target_row, line.draft_row, line.place, line.tokens, line.length)
    arguments = (
        *spread(target), *spread(target if draft is None else draft),  # in place of what is not read
        (uniforms.uniforms if factor is None else factor).contiguous(), *(part.contiguous() for part in rows), weights,
    )  # fmt: skip
    fixed = {"LOGITS": logits, "POINT": draft is None, "FACTOR": factor is not None, "LEVELS": levels, **EXACT}
    weigh[(paths,)](*arguments, vocab, **fixed, LANES=lanes(levels))
    rest, whole = torch.empty((2, paths, levels + 1, chunks), dtype=torch.int64, device=device)
    sum_rest_along[(paths * (levels + 1), chunks)](*arguments, rest, whole, vocab, **fixed, BLOCK=BLOCK)
    accepted, token = torch.empty((2, paths), dtype=torch.int64, device=device)
    finish[(paths,)](
        *arguments, rest, whole, uniforms.uniforms, accepted, token, vocab, chunks, *uniforms[1:], **fixed, BLOCK=BLOCK,
        LANES=lanes(chunks), ROWS=min(lanes(levels + 1), FINISHED[0]), COLUMNS=min(lanes(chunks), FINISHED[1]),
    )  # fmt: skip
    return Accepted(accepted, token)
