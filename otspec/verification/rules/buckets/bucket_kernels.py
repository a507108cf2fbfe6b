"""The problem of the buckets in Triton: `buckets.solve_buckets`, to the last bit; `lottery_kernels` hold its lotteries.

A problem has some 12 000 buckets with a dozen numbers each.  They are cut into chunks, a program to each, and the way
to the solution into steps, a launch to each.  A running sum is kept within chunks, beside a table of what ran up before
each chunk: programs add the sum of their own to the entries of all later chunks, and sums of integers do not depend on
who comes first.  How many problems there are, the host does not know: programs beyond return at once.

Planes are the arrays of one problem.  A running sum has the number of its table.
"""

from __future__ import annotations

import triton
import triton.language as tl

from otspec.verification.tensors.reading_kernels import units_of

HELD, MASSES, RAN, SERVED, WISHED, WANTED, GIVEN, ALONE, HEADS = (tl.constexpr(plane) for plane in range(9))
SIZE, TARGET, UNITS = (tl.constexpr(plane) for plane in range(9, 12))
LONGS = tl.constexpr(12)
DENSITY, PIVOT = (tl.constexpr(plane) for plane in range(2))
FLOATS = tl.constexpr(2)
IDLE = tl.constexpr(9)
TABLES = tl.constexpr(10)


@triton.jit
def before(sums, index):
    """`fixed_point.before`, for running sums in memory."""
    return tl.where(index > 0, tl.load(sums + tl.maximum(index - 1, 0)), 0)


@triton.jit
def summed(sums, table, index, TILE: tl.constexpr):
    """A running sum that is kept in chunks."""
    return tl.load(sums + index) + tl.load(table + index // TILE)


@triton.jit
def summed_before(sums, table, index, TILE: tl.constexpr):
    """`fixed_point.before`, for such a sum."""
    return tl.where(index > 0, summed(sums, table, tl.maximum(index - 1, 0), TILE), 0)


@triton.jit
def amount_of(sums, ranks, inside, TILE: tl.constexpr):
    """What such a sum adds up, of the ranks of one chunk."""
    earlier = tl.load(sums + ranks - 1, mask=inside & (ranks % TILE > 0), other=0)
    return tl.load(sums + ranks, mask=inside, other=0) - earlier


@triton.jit
def pass_on(table, chunk, amount, CARRIES: tl.constexpr):
    """Add to what has run up before all later chunks; the entry after that of the last chunk is the total."""
    chunks = tl.arange(0, CARRIES)
    tl.atomic_add(table + chunks, tl.zeros([CARRIES], tl.int64) + amount, mask=chunks > chunk, sem="relaxed")


@triton.jit
def halved(values, keys, low, high, ABOVE: tl.constexpr):
    """A round of a search for the first value that exceeds a key, or reaches it, somewhere from low to high."""
    middle = (low + high) >> 1
    there = low < high
    value = tl.load(values + middle, mask=there, other=0)
    beyond = ((value < keys) | ((value == keys) & ABOVE)) & there
    return tl.where(beyond, middle + 1, low), tl.where(beyond, high, tl.minimum(middle, high))


@triton.jit
def segment_of(vertices, ranks, SLOPES: tl.constexpr, ROUNDS: tl.constexpr):
    """How many vertices are not beyond each rank."""
    low = tl.zeros_like(ranks)
    high = low + SLOPES
    for _ in range(ROUNDS):
        middle = (low + high) >> 1
        beyond = (tl.load(vertices + tl.minimum(middle, SLOPES - 1)) <= ranks) & (low < high)
        high = tl.where(beyond, high, tl.minimum(middle, high))
        low = tl.where(beyond, middle + 1, low)
    return low


@triton.jit
def to_nearest(value):
    """Rounded as torch does: halves to the even number."""
    down = tl.floor(value)
    odd = down - 2.0 * tl.floor(0.5 * down)
    beyond = value - down
    return down + tl.where((beyond > 0.5) | ((beyond == 0.5) & (odd > 0.5)), 1.0, 0.0)


@triton.jit
def mean_density(low, high, n, BITS_OF_N: tl.constexpr):
    """`measures.mean_density`, of a number of points that has so many binary digits at most."""
    density = tl.full(low.shape, 1.0, tl.float64)
    low_m, high_m = low, high
    for i in tl.static_range(BITS_OF_N):
        rest = n >> (BITS_OF_N - 1 - i)
        begun, one = rest > 1, (rest > 1) & (rest % 2 == 1)
        density = tl.where(begun, density * (high_m + low_m), density)
        low_m, high_m = tl.where(begun, low_m * low_m, low_m), tl.where(begun, high_m * high_m, high_m)
        density = tl.where(one, density * high + low_m, density)
        low_m, high_m = tl.where(one, low_m * low, low_m), tl.where(one, high_m * high, high_m)
    return density


@triton.jit
def power(base, n, BITS_OF_N: tl.constexpr):
    """`measures.power`, likewise."""
    result = base
    for i in tl.static_range(BITS_OF_N):
        rest = n >> (BITS_OF_N - 1 - i)
        result = tl.where(rest > 1, result * result, result)
        result = tl.where((rest > 1) & (rest % 2 == 1), result * base, result)
    return result


@triton.jit
def slope_of(step, OCTAVES: tl.constexpr, FINEST: tl.constexpr):
    """`buckets.LADDER`: powers of 2, and then 1 plus and minus powers of 2."""
    above, below = step - OCTAVES + 1, 2 * FINEST + OCTAVES + 1 - step
    exponent = tl.where(step < OCTAVES, OCTAVES - step, -tl.where(step < OCTAVES + FINEST, above, below))
    two = ((exponent.to(tl.int64) + 1023) << 52).to(tl.float64, bitcast=True)
    near = tl.where(step < OCTAVES + FINEST, 1.0 + two, tl.where(step == OCTAVES + FINEST, 1.0, 1.0 - two))
    return tl.where(step < OCTAVES, two, near)


@triton.jit
def larger(one, other):
    """Of two numbers."""
    return tl.maximum(one, other)


@triton.jit
def running_maximum(values, lanes, STEPS: tl.constexpr):
    """Largest of all values up to each lane, none of which is negative; by a scan if no steps are given."""
    if STEPS == 0:
        values = tl.associative_scan(values, 0, larger)
    for step in tl.static_range(STEPS):
        earlier = tl.gather(values, tl.maximum(lanes - (1 << step), 0), 0)
        values = tl.maximum(values, tl.where(lanes >= (1 << step), earlier, 0))
    return values


@triton.jit
def clear(
    count, start, longs, tables,
    COLUMNS: tl.constexpr, TILE: tl.constexpr, CARRIES: tl.constexpr,
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
def add_up(
    count, start, longs, tables,
    COLUMNS: tl.constexpr, TILE: tl.constexpr, CARRIES: tl.constexpr,
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
def find_heights(
    counts, count, start, longs, tables, heights, tops,
    BITS_OF_N: tl.constexpr, COLUMNS: tl.constexpr, TILE: tl.constexpr, CHUNKS: tl.constexpr, CARRIES: tl.constexpr,
    OCTAVES: tl.constexpr, FINEST: tl.constexpr, SLOPE_LANES: tl.constexpr, POINTS: tl.constexpr,
):  # fmt: skip
    """The running sums, and the point of each chunk that is highest above a line of each slope, the first at a tie."""
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
        slope = slope_of(slopes, OCTAVES, FINEST)
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
def find_excess(
    counts, count, start, longs, floats, tables, heights, tops, vertices,
    BITS_OF_N: tl.constexpr, COLUMNS: tl.constexpr, TILE: tl.constexpr, CHUNKS: tl.constexpr, CARRIES: tl.constexpr,
    OCTAVES: tl.constexpr, FINEST: tl.constexpr, SLOPES: tl.constexpr, SLOPE_LANES: tl.constexpr,
    SLOPE_ROUNDS: tl.constexpr,
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
        segment = segment_of(vertices, ranks, SLOPES, SLOPE_ROUNDS)
        low = tl.load(held + ranks - 1, mask=inside & (ranks > 0), other=0).to(tl.float64) / whole
        high = tl.load(held + ranks, mask=inside, other=0).to(tl.float64) / whole
        share = tl.load(longs + SIZE * COLUMNS + ranks, mask=inside, other=0).to(tl.float64) / whole
        mean = mean_density(low, high, n, BITS_OF_N)
        aim = slope_of(tl.where(segment > OCTAVES + FINEST, segment - 1, segment), OCTAVES, FINEST)
        mine = tl.load(longs + TARGET * COLUMNS + ranks, mask=inside, other=0)
        goal = aim * (mine.to(tl.float64) / total)
        more = tl.where(inside, units_of(share * mean) - units_of(goal), 0)
        ran = tl.cumsum(more, 0)
        pivot = tl.where(share > 0, goal / tl.where(share > 0, share, 1.0), 0.0)
        tl.store(floats + DENSITY * COLUMNS + ranks, mean, mask=inside)
        tl.store(floats + PIVOT * COLUMNS + ranks, pivot, mask=inside)
        tl.store(longs + UNITS * COLUMNS + ranks, units_of(share), mask=inside)
        tl.store(longs + RAN * COLUMNS + ranks, ran, mask=inside)
        pass_on(tables + RAN * CARRIES, chunk, tl.sum(more), CARRIES)
        # A chunk that begins beyond the vertex of slope 1 has no such rank, and nobody asks for its entry.
        level = (segment <= OCTAVES + FINEST) & inside
        first_here = tl.sum(tl.where(lanes == 0, ran, 0))
        tl.store(tables + IDLE * CARRIES + chunk, tl.max(tl.where(level, ran, first_here)))


@triton.jit
def find_offers(
    count, start, longs, tables, vertices,
    COLUMNS: tl.constexpr, TILE: tl.constexpr, STEPS: tl.constexpr, CHUNKS: tl.constexpr, CARRIES: tl.constexpr,
    LEVEL: tl.constexpr, SLOPE_LANES: tl.constexpr,
):  # fmt: skip
    """Surplus without what of it nobody before has asked for; and what seekers wish."""
    node, chunk = tl.program_id(0).to(tl.int64), tl.program_id(1)
    if node < tl.load(count) - start:
        longs += node * LONGS * COLUMNS
        tables += node * TABLES * CARRIES
        end = tl.load(vertices + (node * CHUNKS + chunk) * SLOPE_LANES + LEVEL)
        chunks = tl.arange(0, CARRIES)
        past = (chunks < chunk) & (chunks * TILE < end)
        reached = tl.load(tables + RAN * CARRIES + chunks, mask=past, other=0)
        reached += tl.load(tables + IDLE * CARRIES + chunks, mask=past, other=0)
        most_idle = tl.max(tl.maximum(reached, 0))

        lanes = tl.arange(0, TILE)
        ranks = chunk * TILE + lanes
        inside = ranks < COLUMNS
        more = amount_of(longs + RAN * COLUMNS, ranks, inside, TILE)
        ran = tl.load(longs + RAN * COLUMNS + ranks, mask=inside, other=0) + tl.load(tables + RAN * CARRIES + chunk)
        idle = running_maximum(tl.where((ranks < end) & inside, tl.maximum(ran, 0), 0), lanes, STEPS)
        idle = tl.maximum(idle, most_idle)
        idle_before = tl.where(lanes > 0, tl.gather(idle, tl.maximum(lanes - 1, 0), 0), most_idle)
        serve = tl.where(inside, tl.maximum(more, 0) - (idle - idle_before), 0)
        wish = tl.maximum(-more, 0)
        tl.store(longs + SERVED * COLUMNS + ranks, tl.cumsum(serve, 0), mask=inside)
        tl.store(longs + WISHED * COLUMNS + ranks, tl.cumsum(wish, 0), mask=inside)
        pass_on(tables + SERVED * CARRIES, chunk, tl.sum(serve), CARRIES)
        pass_on(tables + WISHED * CARRIES, chunk, tl.sum(wish), CARRIES)


@triton.jit
def grant(
    count, start, longs, floats, tables, vertices, factor,
    COLUMNS: tl.constexpr, TILE: tl.constexpr, CHUNKS: tl.constexpr, CARRIES: tl.constexpr,
    SLOPES: tl.constexpr, SLOPE_LANES: tl.constexpr, SLOPE_ROUNDS: tl.constexpr,
):  # fmt: skip
    """What seekers get: what is served in their segment, first come, first served.  Hence g/q of every bucket."""
    node, chunk = tl.program_id(0).to(tl.int64), tl.program_id(1)
    if node < tl.load(count) - start:
        longs += node * LONGS * COLUMNS
        tables += node * TABLES * CARRIES
        vertices += (node * CHUNKS + chunk) * SLOPE_LANES
        served, serves = longs + SERVED * COLUMNS, tables + SERVED * CARRIES
        wished, wishes = longs + WISHED * COLUMNS, tables + WISHED * CARRIES
        ranks = chunk * TILE + tl.arange(0, TILE)
        inside = ranks < COLUMNS
        segment = segment_of(vertices, ranks, SLOPES, SLOPE_ROUNDS)
        begin = tl.where(segment > 0, tl.load(vertices + tl.maximum(segment - 1, 0)), 0)
        begin = tl.minimum(begin, COLUMNS - 1)  # of lanes beyond
        end = tl.where(segment < SLOPES, tl.load(vertices + tl.minimum(segment, SLOPES - 1)), COLUMNS) - 1
        wish = amount_of(wished, ranks, inside, TILE)
        last = tl.load(wished + ranks, mask=inside, other=0) + tl.load(wishes + chunk)
        last -= summed_before(wished, wishes, begin, TILE)
        limit = summed(served, serves, end, TILE) - summed_before(served, serves, begin, TILE)
        want = tl.where(inside, tl.minimum(last, limit) - tl.minimum(last - wish, limit), 0)
        tl.store(longs + WANTED * COLUMNS + ranks, tl.cumsum(want, 0), mask=inside)
        pass_on(tables + WANTED * CARRIES, chunk, tl.sum(want), CARRIES)
        whole = tl.load(tables + HELD * CARRIES + CHUNKS).to(tl.float64)
        share = tl.load(longs + SIZE * COLUMNS + ranks, mask=inside, other=0).to(tl.float64) / whole
        mean = tl.load(floats + node * FLOATS * COLUMNS + DENSITY * COLUMNS + ranks, mask=inside, other=0.0)
        law = units_of(share * mean) + want - amount_of(served, ranks, inside, TILE)
        per_q = law.to(tl.float64) / 4611686018427387904.0 / tl.where(share > 0, share, 1.0)
        tl.store(factor + (start + node) * COLUMNS + ranks, tl.where(share > 0, per_q, 0.0), mask=inside)
