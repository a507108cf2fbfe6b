"""The problem of the buckets in Triton: `buckets.solve_buckets`, to the last bit, of many problems at once.

Each step has its kernel, a program to each chunk of each problem; `fill` and `solve`, at the end, launch them.  The
host does not know how many problems there are: programs beyond return at once.  `exchange_kernels` has the last step.

Shapes: M problems, of which W are a wave, worked on together.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from otspec.verification.rules.buckets import buckets
from otspec.verification.rules.buckets.chunk_kernels import (
    DENSITY,
    FLOATS,
    HELD,
    IDLE,
    LONGS,
    MASSES,
    RAN,
    SERVED,
    SIZE,
    TABLES,
    TARGET,
    THRESHOLD,
    UNITS,
    WANTED,
    WISHED,
    amount_of,
    pass_on,
    summed,
    summed_before,
)
from otspec.verification.rules.buckets.cut import (
    POINTS,
    ROUNDS,
    SLOPE_LANES,
    SLOPES,
    TILE,
    Chunked,
    Problems,
    Workspace,
    cut_for,
)
from otspec.verification.rules.buckets.exchange_kernels import contribute
from otspec.verification.tensors.arithmetic_kernels import mean_density, power, running_maximum
from otspec.verification.tensors.row_kernels import law_of, units_of
from otspec.verification.tensors.rows import BLOCK, EXACT, Reading, Rows, spread

BITS = tl.constexpr(buckets.BITS)
OCTAVES, FINEST = tl.constexpr(buckets.OCTAVES), tl.constexpr(buckets.FINEST)
SLOPE_ROUNDS = tl.constexpr(SLOPE_LANES.value.bit_length() - 1)
"""Of a search for a slope."""


@triton.jit
def clear(
    count,  # (1,)
    start,  # scalar: the first problem of the wave
    longs, tables,  # (W, LONGS, COLUMNS), (W, TABLES, CARRIES)
    COLUMNS: tl.constexpr, CARRIES: tl.constexpr,
):  # fmt: skip
    """Nothing is in the buckets, and nothing has run up."""
    node, chunk = tl.program_id(0).to(tl.int64), tl.program_id(1)
    if node < tl.load(count) - start:
        longs += node * LONGS * COLUMNS
        ranks = chunk * TILE + tl.arange(0, TILE)
        inside = ranks < COLUMNS
        tl.store(longs + SIZE * COLUMNS + ranks, tl.zeros([TILE], tl.int64), mask=inside)
        tl.store(longs + TARGET * COLUMNS + ranks, tl.zeros([TILE], tl.int64), mask=inside)
        if chunk == 0:
            for table in range(TABLES):
                entries = tables + (node * TABLES + table) * CARRIES + tl.arange(0, CARRIES)
                tl.store(entries, tl.zeros([CARRIES], tl.int64))


@triton.jit
def bucket_of(
    p, q,  # (LANES,)
    COUNT: tl.constexpr,
):  # fmt: skip
    """`buckets.bucket_of`, operation by operation."""
    ratio = tl.where(q > 0, p / tl.where(q > 0, q, 1.0), 0.0)
    low = (tl.minimum(ratio, 1.0) * 2**BITS).to(tl.int64)
    high = (ratio.to(tl.int64, bitcast=True) >> (52 - BITS)) - 1022 * 2**BITS
    bucket = tl.minimum(tl.where(ratio < 1, low, high), COUNT - 1)
    return tl.where(q > 0, bucket, COUNT)


@triton.jit
def add_to_buckets(
    p, p_high, p_first, p_heat, p_scale, p_valid,  # (R, V), and of `Rows` (R,)
    q, q_high, q_first, q_heat, q_scale, q_valid,  # (R', V), and of `Rows` (R',)
    p_rows, q_rows,  # (M,)
    count,  # (1,)
    start,  # scalar: the first problem of the wave
    target, size,  # (W, COUNT + 1), `stride` apart
    stride, vocab,  # scalars
    LOGITS: tl.constexpr, COUNT: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Histograms of p and q over the buckets, COUNT + 1 of them, in units, for pairs of rows."""
    p_law = Rows(Reading(p, p_high, p_first, p_heat, p_scale), p_valid)
    q_law = Rows(Reading(q, q_high, q_first, q_heat, q_scale), q_valid)
    pair = tl.program_id(0).to(tl.int64)
    if pair < tl.load(count) - start:
        p_row, q_row = tl.load(p_rows + start + pair), tl.load(q_rows + start + pair)
        tokens = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
        here = law_of(p_law, p_row, tokens, vocab, LOGITS)
        there = law_of(q_law, q_row, tokens, vocab, LOGITS)
        bucket = bucket_of(here, there, COUNT)
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


@triton.jit
def add_up(
    count,  # (1,)
    start,  # scalar: the first problem of the wave
    longs, tables,  # (W, LONGS, COLUMNS), (W, TABLES, CARRIES)
    COLUMNS: tl.constexpr, CARRIES: tl.constexpr,
):  # fmt: skip
    """What the buckets of each chunk hold."""
    node, chunk = tl.program_id(0).to(tl.int64), tl.program_id(1)
    if node < tl.load(count) - start:
        longs += node * LONGS * COLUMNS
        tables += node * TABLES * CARRIES
        ranks = chunk * TILE + tl.arange(0, TILE)
        inside = ranks < COLUMNS
        sizes = tl.load(longs + SIZE * COLUMNS + ranks, mask=inside, other=0)
        pass_on(tables + HELD * CARRIES, chunk, tl.sum(sizes), CARRIES)
        masses = tl.load(longs + TARGET * COLUMNS + ranks, mask=inside, other=0)
        pass_on(tables + MASSES * CARRIES, chunk, tl.sum(masses), CARRIES)


@triton.jit
def slope_of(step):  # (SLOPE_LANES,), or of as many ranks
    """`buckets.LADDER`: powers of 2, and then 1 plus and minus powers of 2."""
    above, below = step - OCTAVES + 1, 2 * FINEST + OCTAVES + 1 - step
    exponent = tl.where(step < OCTAVES, OCTAVES - step, -tl.where(step < OCTAVES + FINEST, above, below))
    two = ((exponent.to(tl.int64) + 1023) << 52).to(tl.float64, bitcast=True)
    near = tl.where(step < OCTAVES + FINEST, 1.0 + two, tl.where(step == OCTAVES + FINEST, 1.0, 1.0 - two))
    return tl.where(step < OCTAVES, two, near)


@triton.jit
def find_heights(
    counts,  # (M,)
    count,  # (1,)
    start,  # scalar: the first problem of the wave
    longs, tables,  # (W, LONGS, COLUMNS), (W, TABLES, CARRIES)
    heights, tops,  # (W, CHUNKS, SLOPE_LANES)
    BITS_OF_N: tl.constexpr, COLUMNS: tl.constexpr, CHUNKS: tl.constexpr, CARRIES: tl.constexpr,
):  # fmt: skip
    """The running sums, and the point of each chunk that is highest above a line of each slope, the first at a tie.

    Of the majorant only the vertices for a few slopes are needed, as in `buckets`: a maximum for each, in place of
    all its breakpoints.
    """
    node, chunk = tl.program_id(0).to(tl.int64), tl.program_id(1)
    if node < tl.load(count) - start:
        n = tl.load(counts + start + node)
        longs += node * LONGS * COLUMNS
        tables += node * TABLES * CARRIES
        held, masses = longs + HELD * COLUMNS, longs + MASSES * COLUMNS
        ranks = chunk * TILE + tl.arange(0, TILE)
        inside = ranks < COLUMNS
        sizes = tl.load(longs + SIZE * COLUMNS + ranks, mask=inside, other=0)
        tl.store(held + ranks, tl.load(tables + HELD * CARRIES + chunk) + tl.cumsum(sizes, 0), mask=inside)
        mine = tl.load(longs + TARGET * COLUMNS + ranks, mask=inside, other=0)
        tl.store(masses + ranks, tl.load(tables + MASSES * CARRIES + chunk) + tl.cumsum(mine, 0), mask=inside)
        whole = tl.load(tables + HELD * CARRIES + CHUNKS).to(tl.float64)
        total = tl.load(tables + MASSES * CARRIES + CHUNKS).to(tl.float64)
        tl.debug_barrier()

        slopes = tl.arange(0, SLOPE_LANES)
        slope = slope_of(slopes)
        best = tl.full([SLOPE_LANES, POINTS], 0.0, tl.float64)  # the height of the first point, (0, 0)
        firsts = tl.zeros([SLOPE_LANES, POINTS], tl.int32)
        for begin in range(0, TILE, POINTS):
            places = chunk * TILE + begin + tl.arange(0, POINTS)
            there = places < COLUMNS
            fill = tl.load(held + places, mask=there, other=0).to(tl.float64) / whole
            run = tl.load(masses + places, mask=there, other=0).to(tl.float64) / total
            height = power(fill, n, BITS_OF_N)[None, :] - slope[:, None] * run[None, :]
            height = tl.where(there[None, :], height, -float("inf"))
            firsts = tl.where(height > best, places[None, :] + 1, firsts)
            best = tl.maximum(best, height)
        highest = tl.max(best, axis=1)
        top = tl.min(tl.where(best == highest[:, None], firsts, COLUMNS), axis=1)
        mark = (node * CHUNKS + chunk) * SLOPE_LANES + slopes
        tl.store(heights + mark, highest)
        tl.store(tops + mark, top.to(tl.int64))


@triton.jit
def segment_of(
    vertices,  # (SLOPE_LANES,)
    ranks,  # (TILE,)
):  # fmt: skip
    """How many vertices are not beyond each rank."""
    low = tl.zeros_like(ranks)
    high = low + SLOPES
    for _ in range(SLOPE_ROUNDS):
        middle = (low + high) >> 1
        beyond = (tl.load(vertices + tl.minimum(middle, SLOPES - 1)) <= ranks) & (low < high)
        high = tl.where(beyond, high, tl.minimum(middle, high))
        low = tl.where(beyond, middle + 1, low)
    return low


@triton.jit
def find_excess(
    counts,  # (M,)
    count,  # (1,)
    start,  # scalar: the first problem of the wave
    longs, floats, tables,  # (W, LONGS, COLUMNS), (W, FLOATS, COLUMNS), (W, TABLES, CARRIES)
    heights, tops, vertices,  # (W, CHUNKS, SLOPE_LANES)
    BITS_OF_N: tl.constexpr, COLUMNS: tl.constexpr, CHUNKS: tl.constexpr, CARRIES: tl.constexpr,
):  # fmt: skip
    """The vertices of the majorant, and by how much the measures of buckets exceed what g is to be there."""
    node, chunk = tl.program_id(0).to(tl.int64), tl.program_id(1)
    if node < tl.load(count) - start:
        n = tl.load(counts + start + node)
        longs += node * LONGS * COLUMNS
        floats += node * FLOATS * COLUMNS
        tables += node * TABLES * CARRIES
        slopes, chunks = tl.arange(0, SLOPE_LANES), tl.arange(0, CARRIES)
        marks = (node * CHUNKS + chunks[None, :]) * SLOPE_LANES + slopes[:, None]
        here = (chunks < CHUNKS)[None, :] & (slopes < SLOPE_LANES)[:, None]
        high = tl.load(heights + marks, mask=here, other=-1.0)
        top = tl.load(tops + marks, mask=here, other=COLUMNS)
        vertex = tl.min(tl.where(high == tl.max(high, axis=1)[:, None], top, COLUMNS), axis=1)
        earlier = slopes[None, :] <= slopes[:, None]
        vertex = tl.max(tl.where(earlier, vertex[None, :], 0), axis=1)
        vertices += (node * CHUNKS + chunk) * SLOPE_LANES  # every chunk has its own copy
        tl.store(vertices + slopes, vertex)
        tl.debug_barrier()

        lanes = tl.arange(0, TILE)
        ranks = chunk * TILE + lanes
        inside = ranks < COLUMNS
        whole = tl.load(tables + HELD * CARRIES + CHUNKS).to(tl.float64)
        total = tl.load(tables + MASSES * CARRIES + CHUNKS).to(tl.float64)
        held = longs + HELD * COLUMNS
        segment = segment_of(vertices, ranks)
        low = tl.load(held + ranks - 1, mask=inside & (ranks > 0), other=0).to(tl.float64) / whole
        high = tl.load(held + ranks, mask=inside, other=0).to(tl.float64) / whole
        share = tl.load(longs + SIZE * COLUMNS + ranks, mask=inside, other=0).to(tl.float64) / whole
        mean = mean_density(low, high, n, BITS_OF_N)
        aim = slope_of(tl.where(segment > OCTAVES + FINEST, segment - 1, segment))
        mine = tl.load(longs + TARGET * COLUMNS + ranks, mask=inside, other=0)
        goal = aim * (mine.to(tl.float64) / total)
        more = tl.where(inside, units_of(share * mean) - units_of(goal), 0)
        ran = tl.cumsum(more, 0)
        threshold = tl.where(share > 0, goal / tl.where(share > 0, share, 1.0), 0.0)
        tl.store(floats + DENSITY * COLUMNS + ranks, mean, mask=inside)
        tl.store(floats + THRESHOLD * COLUMNS + ranks, threshold, mask=inside)
        tl.store(longs + UNITS * COLUMNS + ranks, units_of(share), mask=inside)
        tl.store(longs + RAN * COLUMNS + ranks, ran, mask=inside)
        pass_on(tables + RAN * CARRIES, chunk, tl.sum(more), CARRIES)
        # A chunk that begins beyond the vertex of slope 1 has no such rank, and its entry is never read.
        level = (segment <= OCTAVES + FINEST) & inside
        first_here = tl.sum(tl.where(lanes == 0, ran, 0))
        tl.store(tables + IDLE * CARRIES + chunk, tl.max(tl.where(level, ran, first_here)))


@triton.jit
def find_offers(
    count,  # (1,)
    start,  # scalar: the first problem of the wave
    longs, tables,  # (W, LONGS, COLUMNS), (W, TABLES, CARRIES)
    vertices,  # (W, CHUNKS, SLOPE_LANES)
    COLUMNS: tl.constexpr, CHUNKS: tl.constexpr, CARRIES: tl.constexpr,
):  # fmt: skip
    """Surplus without the part that no earlier recipient wants; and what recipients wish."""
    node, chunk = tl.program_id(0).to(tl.int64), tl.program_id(1)
    if node < tl.load(count) - start:
        longs += node * LONGS * COLUMNS
        tables += node * TABLES * CARRIES
        end = tl.load(vertices + (node * CHUNKS + chunk) * SLOPE_LANES + OCTAVES + FINEST)
        chunks = tl.arange(0, CARRIES)
        past = (chunks < chunk) & (chunks * TILE < end)
        reached = tl.load(tables + RAN * CARRIES + chunks, mask=past, other=0)
        reached += tl.load(tables + IDLE * CARRIES + chunks, mask=past, other=0)
        most_idle = tl.max(tl.maximum(reached, 0))

        lanes = tl.arange(0, TILE)
        ranks = chunk * TILE + lanes
        inside = ranks < COLUMNS
        more = amount_of(longs + RAN * COLUMNS, ranks, inside)
        ran = tl.load(longs + RAN * COLUMNS + ranks, mask=inside, other=0) + tl.load(tables + RAN * CARRIES + chunk)
        idle = running_maximum(tl.where((ranks < end) & inside, tl.maximum(ran, 0), 0), lanes, ROUNDS)
        idle = tl.maximum(idle, most_idle)
        idle_before = tl.where(lanes > 0, tl.gather(idle, tl.maximum(lanes - 1, 0), 0), most_idle)
        serve = tl.where(inside, tl.maximum(more, 0) - (idle - idle_before), 0)
        wish = tl.maximum(-more, 0)
        tl.store(longs + SERVED * COLUMNS + ranks, tl.cumsum(serve, 0), mask=inside)
        tl.store(longs + WISHED * COLUMNS + ranks, tl.cumsum(wish, 0), mask=inside)
        pass_on(tables + SERVED * CARRIES, chunk, tl.sum(serve), CARRIES)
        pass_on(tables + WISHED * CARRIES, chunk, tl.sum(wish), CARRIES)


@triton.jit
def allocate(
    count,  # (1,)
    start,  # scalar: the first problem of the wave
    longs, floats, tables,  # (W, LONGS, COLUMNS), (W, FLOATS, COLUMNS), (W, TABLES, CARRIES)
    vertices,  # (W, CHUNKS, SLOPE_LANES)
    factor,  # (M, COLUMNS)
    COLUMNS: tl.constexpr, CHUNKS: tl.constexpr, CARRIES: tl.constexpr,
):  # fmt: skip
    """What recipients get: what is served in their segment, first come, first served.  Hence g/q of every bucket."""
    node, chunk = tl.program_id(0).to(tl.int64), tl.program_id(1)
    if node < tl.load(count) - start:
        longs += node * LONGS * COLUMNS
        tables += node * TABLES * CARRIES
        vertices += (node * CHUNKS + chunk) * SLOPE_LANES
        served = Chunked(longs + SERVED * COLUMNS, tables + SERVED * CARRIES)
        wished = Chunked(longs + WISHED * COLUMNS, tables + WISHED * CARRIES)
        ranks = chunk * TILE + tl.arange(0, TILE)
        inside = ranks < COLUMNS
        segment = segment_of(vertices, ranks)
        begin = tl.where(segment > 0, tl.load(vertices + tl.maximum(segment - 1, 0)), 0)
        begin = tl.minimum(begin, COLUMNS - 1)  # of lanes beyond
        end = tl.where(segment < SLOPES, tl.load(vertices + tl.minimum(segment, SLOPES - 1)), COLUMNS) - 1
        wish = amount_of(wished.sums, ranks, inside)
        last = tl.load(wished.sums + ranks, mask=inside, other=0) + tl.load(wished.table + chunk)
        last -= summed_before(wished, begin)
        limit = summed(served, end) - summed_before(served, begin)
        want = tl.where(inside, tl.minimum(last, limit) - tl.minimum(last - wish, limit), 0)
        tl.store(longs + WANTED * COLUMNS + ranks, tl.cumsum(want, 0), mask=inside)
        pass_on(tables + WANTED * CARRIES, chunk, tl.sum(want), CARRIES)
        whole = tl.load(tables + HELD * CARRIES + CHUNKS).to(tl.float64)
        share = tl.load(longs + SIZE * COLUMNS + ranks, mask=inside, other=0).to(tl.float64) / whole
        mean = tl.load(floats + node * FLOATS * COLUMNS + DENSITY * COLUMNS + ranks, mask=inside, other=0.0)
        law = units_of(share * mean) + want - amount_of(served.sums, ranks, inside)
        per_q = law.to(tl.float64) / 4611686018427387904.0 / tl.where(share > 0, share, 1.0)
        tl.store(factor + (start + node) * COLUMNS + ranks, tl.where(share > 0, per_q, 0.0), mask=inside)


def fill(
    work: Workspace,
    problems: Problems,
    start: int,
    rows: tuple[Tensor, Tensor],
    target: Rows,
    draft: Rows,
    logits: bool,
) -> None:
    """Put the laws of a wave into buckets.

    Parameters
    ----------
    work : Workspace
    problems : Problems
    start : int
        The first problem of the wave.
    rows : pair of Tensor of int64, shape (M,)
        Of the target and the draft, of each problem.
    target, draft : Rows
    logits : bool
        Whether values are logits.
    """
    held, stride, cut = work.longs.shape[0], work.longs.stride(0), cut_for(problems.most)
    clear[(held, cut.CHUNKS)](
        problems.listed, start, work.longs, work.tables, COLUMNS=cut.COLUMNS, CARRIES=cut.CARRIES, **EXACT
    )
    add_to_buckets[(held, -(-target.vocab // BLOCK))](
        *spread(target), *spread(draft), *rows, problems.listed, start,
        work.longs[:, TARGET.value], work.longs[:, SIZE.value], stride, target.vocab,
        LOGITS=logits, COUNT=cut.COLUMNS - 1, BLOCK=BLOCK, **EXACT,
    )  # fmt: skip


def solve(work: Workspace, problems: Problems, drafts: Tensor, start: int, factor: Tensor) -> None:
    """`otspec.verification.rules.buckets.buckets.solve_buckets` for the buckets of a wave, to the last bit.

    Parameters
    ----------
    work : Workspace
        As `fill` leaves it.
    problems : Problems
    drafts : Tensor of int64, shape (M,)
        How many there are of each problem.
    start : int
        The first problem of the wave.
    factor : Tensor of float64, shape (M, buckets + 1)
        Where g/q of the buckets goes.
    """
    cut, digits = cut_for(problems.most), problems.most.bit_length()
    grid, columns = (work.longs.shape[0], cut.CHUNKS), {"COLUMNS": cut.COLUMNS, "CARRIES": cut.CARRIES, **EXACT}
    chunks = {**columns, "CHUNKS": cut.CHUNKS}
    sums = (problems.listed, start, work.longs, work.tables)
    numbers = (problems.listed, start, work.longs, work.floats, work.tables)
    marks = work.heights, work.tops
    add_up[grid](*sums, **columns)
    find_heights[grid](drafts, *sums, *marks, **chunks, BITS_OF_N=digits, num_warps=8)  # it has more to do
    find_excess[grid](drafts, *numbers, *marks, work.vertices, **chunks, BITS_OF_N=digits)
    find_offers[grid](*sums, work.vertices, **chunks)
    allocate[grid](*numbers, work.vertices, factor, **chunks)
    contribute[grid](*numbers, **chunks, CHUNK_ROUNDS=cut.CHUNK_ROUNDS)
