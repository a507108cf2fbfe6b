"""The problem of the buckets in Triton, a row to a program: `buckets.solve_buckets` and `lotteries`, to the last bit.

A row has some 12 000 buckets with ten numbers each, more than registers hold: the numbers stay in memory, in cache, and
the program goes over them by tiles, carrying what ran up so far.  Where a pass reads what other lanes have written in
the one before, there is a barrier between them.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def to_units(mass):
    """`fixed_point.to_units`."""
    return tl.floor(mass * 4611686018427387904.0 + 0.5).to(tl.int64)


@triton.jit
def before(sums, index):
    """`fixed_point.before`, for running sums in memory."""
    return tl.where(index > 0, tl.load(sums + tl.maximum(index - 1, 0)), 0)


@triton.jit
def first(sums, keys, ENTRIES: tl.constexpr, ROUNDS: tl.constexpr, ABOVE: tl.constexpr):
    """`fixed_point.first_above`, or `first_reaching`: a binary search in memory."""
    low = tl.zeros_like(keys)
    high = low + ENTRIES
    for _ in range(ROUNDS):
        middle = (low + high) >> 1
        value = tl.load(sums + tl.minimum(middle, ENTRIES - 1))
        beyond = ((value < keys) | ((value == keys) & ABOVE)) & (low < high)
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
def stake_of(amount, gap, size):
    """`lotteries._stake`."""
    trades = (gap > 0) & (amount > 0)
    stake = tl.where(trades, amount.to(tl.float64) / tl.where(trades, gap, 1.0), 0.0)
    return tl.minimum(to_nearest(tl.minimum(stake, size.to(tl.float64))).to(tl.int64), size)


@triton.jit
def mean_density(low, high, N: tl.constexpr, BITS_OF_N: tl.constexpr):
    """`measures.mean_density`."""
    density = tl.full(low.shape, 1.0, tl.float64)
    low_m, high_m = low, high
    for i in tl.static_range(1, BITS_OF_N):
        density = density * (high_m + low_m)
        low_m, high_m = low_m * low_m, high_m * high_m
        if (N >> (BITS_OF_N - 1 - i)) & 1:
            density = density * high + low_m
            low_m, high_m = low_m * low, high_m * high
    return density


@triton.jit
def power(base, N: tl.constexpr, BITS_OF_N: tl.constexpr):
    """`measures.power`."""
    result = base
    for i in tl.static_range(1, BITS_OF_N):
        result = result * result
        if (N >> (BITS_OF_N - 1 - i)) & 1:
            result = result * base
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
def solve(
    target, size, vertices, factor, density, pivot, units, held, masses, excess, wants, serves,
    wanted, served, given, alone, heads,
    N: tl.constexpr, BITS_OF_N: tl.constexpr, COLUMNS: tl.constexpr, ROUNDS: tl.constexpr,
    OCTAVES: tl.constexpr, FINEST: tl.constexpr, SLOPES: tl.constexpr, SLOPE_LANES: tl.constexpr,
    SLOPE_ROUNDS: tl.constexpr, TILE: tl.constexpr, STEPS: tl.constexpr, POINTS: tl.constexpr,
):  # fmt: skip
    """g/q of every bucket, and the lotteries, from the masses of a row's buckets in units; arrays (B, COLUMNS)."""
    row = tl.program_id(0).to(tl.int64)
    target += row * COLUMNS
    size += row * COLUMNS
    vertices += row * SLOPES
    factor += row * COLUMNS
    density += row * COLUMNS
    pivot += row * COLUMNS
    units += row * COLUMNS
    held += row * COLUMNS
    masses += row * COLUMNS
    excess += row * COLUMNS
    wants += row * COLUMNS
    serves += row * COLUMNS
    wanted += row * COLUMNS
    served += row * COLUMNS
    given += row * COLUMNS
    alone += row * COLUMNS
    heads += row * COLUMNS
    lanes = tl.arange(0, TILE)

    all_held = tl.zeros([], tl.int64)
    all_masses = tl.zeros([], tl.int64)
    for start in range(0, COLUMNS, TILE):
        ranks = start + lanes
        inside = ranks < COLUMNS
        mine = tl.load(size + ranks, mask=inside, other=0)
        tl.store(held + ranks, all_held + tl.cumsum(mine, 0), mask=inside)
        all_held += tl.sum(mine)
        mine = tl.load(target + ranks, mask=inside, other=0)
        tl.store(masses + ranks, all_masses + tl.cumsum(mine, 0), mask=inside)
        all_masses += tl.sum(mine)
    tl.debug_barrier()
    whole, total = all_held.to(tl.float64), all_masses.to(tl.float64)

    # The vertices of the majorant: the highest point above a line of each slope, the first one at a tie.
    slopes = tl.arange(0, SLOPE_LANES)
    slope = slope_of(slopes, OCTAVES, FINEST)
    best = tl.full([SLOPE_LANES, POINTS], 0.0, tl.float64)  # the height of the first point, (0, 0)
    firsts = tl.zeros([SLOPE_LANES, POINTS], tl.int32)
    for start in range(0, COLUMNS, POINTS):
        ranks = start + tl.arange(0, POINTS)
        inside = ranks < COLUMNS
        fill = tl.load(held + ranks, mask=inside, other=0).to(tl.float64) / whole
        run = tl.load(masses + ranks, mask=inside, other=0).to(tl.float64) / total
        height = power(fill, N, BITS_OF_N)[None, :] - slope[:, None] * run[None, :]
        height = tl.where(inside[None, :], height, -float("inf"))
        firsts = tl.where(height > best, ranks[None, :] + 1, firsts)
        best = tl.maximum(best, height)
    highest = best == tl.max(best, axis=1)[:, None]
    vertex = tl.min(tl.where(highest, firsts, COLUMNS), axis=1)
    vertex = running_maximum(vertex, slopes, SLOPE_ROUNDS)
    tl.store(vertices + slopes, vertex.to(tl.int64), mask=slopes < SLOPES)
    tl.debug_barrier()

    # Surplus, and what of it nobody before has asked for.
    ran = tl.zeros([], tl.int64)
    most_idle = tl.zeros([], tl.int64)
    all_served = tl.zeros([], tl.int64)
    all_wished = tl.zeros([], tl.int64)
    for start in range(0, COLUMNS, TILE):
        ranks = start + lanes
        inside = ranks < COLUMNS
        segment = first(vertices, ranks.to(tl.int64), SLOPES, SLOPE_ROUNDS, True)
        low = tl.load(held + ranks - 1, mask=inside & (ranks > 0), other=0).to(tl.float64) / whole
        high = tl.load(held + ranks, mask=inside, other=0).to(tl.float64) / whole
        share = tl.load(size + ranks, mask=inside, other=0).to(tl.float64) / whole
        mean = mean_density(low, high, N, BITS_OF_N)
        aim = slope_of(tl.where(segment > OCTAVES + FINEST, segment - 1, segment), OCTAVES, FINEST)
        goal = aim * (tl.load(target + ranks, mask=inside, other=0).to(tl.float64) / total)
        more = tl.where(inside, to_units(share * mean) - to_units(goal), 0)
        ran_here = ran + tl.cumsum(more, 0)
        ran += tl.sum(more)
        idle = running_maximum(
            tl.where((segment <= OCTAVES + FINEST) & inside, tl.maximum(ran_here, 0), 0), lanes, STEPS
        )
        idle = tl.maximum(idle, most_idle)
        idle_before = tl.where(lanes > 0, tl.gather(idle, tl.maximum(lanes - 1, 0), 0), most_idle)
        most_idle = tl.max(idle)
        serve = tl.maximum(more, 0) - (idle - idle_before)
        serve = tl.where(inside, serve, 0)
        wish = tl.maximum(-more, 0)
        tl.store(excess + ranks, more, mask=inside)
        tl.store(density + ranks, mean, mask=inside)
        tl.store(units + ranks, to_units(share), mask=inside)
        tl.store(pivot + ranks, tl.where(share > 0, goal / tl.where(share > 0, share, 1.0), 0.0), mask=inside)
        tl.store(serves + ranks, serve, mask=inside)
        tl.store(served + ranks, all_served + tl.cumsum(serve, 0), mask=inside)
        tl.store(wanted + ranks, all_wished + tl.cumsum(wish, 0), mask=inside)  # wishes, for the time being
        all_served += tl.sum(serve)
        all_wished += tl.sum(wish)
    tl.debug_barrier()

    # What each gets of its wishes: what is served in its segment, first come, first served.
    for start in range(0, COLUMNS, TILE):
        ranks = start + lanes
        inside = ranks < COLUMNS
        segment = first(vertices, ranks.to(tl.int64), SLOPES, SLOPE_ROUNDS, True)
        begin = tl.where(segment > 0, tl.load(vertices + tl.maximum(segment - 1, 0)), 0)
        end = tl.where(segment < SLOPES, tl.load(vertices + tl.minimum(segment, SLOPES - 1)), COLUMNS) - 1
        more = tl.load(excess + ranks, mask=inside, other=0)
        wished = tl.load(wanted + ranks, mask=inside, other=0) - before(wanted, begin)
        limit = tl.load(served + end) - before(served, begin)
        want = tl.minimum(wished, limit) - tl.minimum(wished - tl.maximum(-more, 0), limit)
        want = tl.where(inside, want, 0)
        tl.store(wants + ranks, want, mask=inside)
        share = tl.load(size + ranks, mask=inside, other=0).to(tl.float64) / whole
        mean = tl.load(density + ranks, mask=inside, other=0.0)
        law = to_units(share * mean) + want - tl.load(serves + ranks, mask=inside, other=0)
        per_q = law.to(tl.float64) / 4611686018427387904.0 / tl.where(share > 0, share, 1.0)
        tl.store(factor + ranks, tl.where(share > 0, per_q, 0.0), mask=inside)
    tl.debug_barrier()
    all_wanted = tl.zeros([], tl.int64)
    for start in range(0, COLUMNS, TILE):
        ranks = start + lanes
        inside = ranks < COLUMNS
        want = tl.load(wants + ranks, mask=inside, other=0)
        tl.store(wanted + ranks, all_wanted + tl.cumsum(want, 0), mask=inside)
        all_wanted += tl.sum(want)
    tl.debug_barrier()

    # The stakes: `lotteries.hold`, with one giver to a lottery.
    all_given = tl.zeros([], tl.int64)
    all_alone = tl.zeros([], tl.int64)
    all_heads = tl.zeros([], tl.int64)
    for start in range(0, COLUMNS, TILE):
        ranks = start + lanes
        inside = ranks < COLUMNS
        want = tl.load(wants + ranks, mask=inside, other=0)
        serve = tl.load(serves + ranks, mask=inside, other=0)
        ends = tl.load(wanted + ranks, mask=inside, other=0)
        high = tl.load(served + ranks, mask=inside, other=0)
        mean = tl.load(density + ranks, mask=inside, other=0.0)
        start_at = tl.load(pivot + ranks, mask=inside, other=0.0)
        place = tl.load(units + ranks, mask=inside, other=0)
        home = tl.minimum(first(served, ends - want, COLUMNS, ROUNDS, True), COLUMNS - 1)
        latest = first(served, ends, COLUMNS, ROUNDS, False)
        by_one = (want > 0) & (latest < COLUMNS) & (home == latest)
        stake = tl.where(by_one, stake_of(want, tl.load(pivot + home) - mean, place), 0)
        tl.store(alone + ranks, all_alone + tl.cumsum(stake, 0), mask=inside)
        all_alone += tl.sum(stake)
        stake = stake_of(serve, mean - start_at, place)
        tl.store(given + ranks, all_given + tl.cumsum(stake, 0), mask=inside)
        all_given += tl.sum(stake)
        oldest = tl.minimum(first(wanted, high - serve, COLUMNS, ROUNDS, True), COLUMNS - 1)
        amount = tl.minimum(tl.load(wanted + oldest), high) - (high - serve)
        stake = stake_of(amount, start_at - tl.load(density + oldest), tl.load(units + oldest))
        stake = tl.where(serve > 0, stake, 0)
        tl.store(heads + ranks, all_heads + tl.cumsum(stake, 0), mask=inside)
        all_heads += tl.sum(stake)


@triton.jit
def pick(
    ranks_of, p_at, q_at, uniforms, factor, density, pivot, units, wanted, served, given, alone, heads,
    picked, accepted, n,
    COLUMNS: tl.constexpr, ROUNDS: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """The draft that is picked, and whether it is accepted: `lotteries.show`, `highest`, and the last uniform."""
    row = tl.program_id(0).to(tl.int64)
    factor += row * COLUMNS
    density += row * COLUMNS
    pivot += row * COLUMNS
    units += row * COLUMNS
    wanted += row * COLUMNS
    served += row * COLUMNS
    given += row * COLUMNS
    alone += row * COLUMNS
    heads += row * COLUMNS
    uniforms += row * 3 * (n + 1)
    lanes = tl.arange(0, LANES)
    asked = lanes < n
    ranks = tl.load(ranks_of + row * n + lanes, mask=asked, other=0)

    # Which lottery each enters, if any.
    place = tl.load(units + ranks)
    position = (tl.load(uniforms + 3 * lanes, mask=asked, other=0.0) * place.to(tl.float64)).to(tl.int64)
    gift = tl.load(given + ranks) - before(given, ranks)
    low, high = before(wanted, ranks), tl.load(wanted + ranks)
    home = tl.minimum(first(served, low, COLUMNS, ROUNDS, True), COLUMNS - 1)
    amount = tl.minimum(tl.load(served + home), high) - low
    seeks = high > low
    stake = tl.where(seeks, stake_of(amount, tl.load(pivot + home) - tl.load(density + ranks), place), 0)
    total = tl.load(served + COLUMNS - 1)
    final = tl.minimum(first(served, tl.minimum(high, total), COLUMNS, ROUNDS, False), COLUMNS - 1)
    later = first(heads, tl.load(heads + home) + position - stake, COLUMNS, ROUNDS, True)
    enters_later = seeks & (position >= stake) & (later > home) & (later <= final) & (low < total)
    lottery = tl.where(enters_later, tl.minimum(later, COLUMNS - 1), home)
    lottery = tl.where(gift > 0, ranks, lottery)
    enters = (position < tl.where(gift > 0, gift, stake)) | enters_later

    # What is drawn there.
    low, high = before(served, lottery), tl.load(served + lottery)
    oldest = tl.minimum(first(wanted, low, COLUMNS, ROUNDS, True), COLUMNS - 1)
    newest = tl.minimum(first(wanted, high, COLUMNS, ROUNDS, False), COLUMNS - 1)
    several = newest > oldest
    head = tl.load(heads + lottery) - before(heads, lottery)
    between = tl.where(several, before(alone, newest) - tl.load(alone + oldest), 0)
    gap = tl.load(pivot + lottery) - tl.load(density + newest)
    tail = tl.where(several, stake_of(high - before(wanted, newest), gap, tl.load(units + newest)), 0)
    held = head + between + tail + (tl.load(given + lottery) - before(given, lottery))
    coin = tl.load(uniforms + 3 * lanes + 1, mask=asked, other=0.0)
    position = tl.minimum((coin * held.to(tl.float64)).to(tl.int64), held - 1)
    inside = first(alone, tl.load(alone + oldest) + position - head, COLUMNS, ROUNDS, True)
    inside = tl.minimum(inside, COLUMNS - 1)
    drawn = tl.where(position >= head + between + tail, lottery, newest)
    drawn = tl.where(position < head + between, inside, drawn)
    drawn = tl.where(position < head, oldest, drawn)

    places = tl.where(asked, tl.where(enters, drawn, ranks), -1)
    fraction = tl.load(uniforms + 3 * lanes + 2, mask=asked, other=0.0)
    fraction = tl.where(asked & (places == tl.max(places)), fraction, -1.0)
    highest = tl.argmax(fraction, 0)
    rank = tl.load(ranks_of + row * n + highest)
    proposal = tl.load(factor + rank) * tl.load(q_at + row * n + highest)
    tl.store(picked + row, highest.to(tl.int64))
    tl.store(accepted + row, (tl.load(uniforms + 3 * n) * proposal < tl.load(p_at + row * n + highest)).to(tl.int8))
