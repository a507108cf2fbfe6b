"""Lotteries of the buckets in Triton: `lotteries.hold` and `lotteries.show`, with one giver to each, to the last bit.

They are searches in running sums that are kept in chunks, as `bucket_kernels` leave them.
"""

from __future__ import annotations

import triton
import triton.language as tl

from otspec.verification.rules.buckets.bucket_kernels import (
    ALONE,
    DENSITY,
    FLOATS,
    GIVEN,
    HEADS,
    LONGS,
    PIVOT,
    SERVED,
    TABLES,
    UNITS,
    WANTED,
    amount_of,
    halved,
    pass_on,
    summed,
    summed_before,
    to_nearest,
)


@triton.jit
def bracket(
    table, keys,
    ENTRIES: tl.constexpr, TILE: tl.constexpr, CHUNKS: tl.constexpr, CHUNK_ROUNDS: tl.constexpr, ABOVE: tl.constexpr,
):  # fmt: skip
    """Where to search a running sum that is kept in chunks, from a first to a last entry, and for what within a chunk.

    Both are `ENTRIES` if the total is not enough.
    """
    low = tl.zeros_like(keys).to(tl.int32)
    high = low + CHUNKS
    for _ in range(CHUNK_ROUNDS):
        low, high = halved(table + 1, keys, low, high, ABOVE)
    found = low < CHUNKS
    start = low * TILE
    last = tl.where(found, tl.minimum(start + TILE, ENTRIES) - 1, ENTRIES)
    return tl.where(found, start, ENTRIES), last, keys - tl.load(table + tl.minimum(low, CHUNKS))


@triton.jit
def first(
    sums, table, keys,
    ENTRIES: tl.constexpr, ROUNDS: tl.constexpr, TILE: tl.constexpr, CHUNKS: tl.constexpr, CHUNK_ROUNDS: tl.constexpr,
    ABOVE: tl.constexpr,
):  # fmt: skip
    """`fixed_point.first_above`, or `first_reaching`, for a running sum that is kept in chunks."""
    low, high, within = bracket(table, keys, ENTRIES, TILE, CHUNKS, CHUNK_ROUNDS, ABOVE)
    for _ in range(ROUNDS):
        low, high = halved(sums, within, low, high, ABOVE)
    return low


@triton.jit
def first_two(
    sums, table, keys, other_sums, other_table, other_keys,
    ENTRIES: tl.constexpr, ROUNDS: tl.constexpr, TILE: tl.constexpr, CHUNKS: tl.constexpr, CHUNK_ROUNDS: tl.constexpr,
    ABOVE: tl.constexpr, OTHER_ABOVE: tl.constexpr,
):  # fmt: skip
    """`first` of two searches, whose rounds wait for memory together."""
    low, high, within = bracket(table, keys, ENTRIES, TILE, CHUNKS, CHUNK_ROUNDS, ABOVE)
    other_low, other_high, other_within = bracket(
        other_table, other_keys, ENTRIES, TILE, CHUNKS, CHUNK_ROUNDS, OTHER_ABOVE
    )  # fmt: skip
    for _ in range(ROUNDS):
        low, high = halved(sums, within, low, high, ABOVE)
        other_low, other_high = halved(other_sums, other_within, other_low, other_high, OTHER_ABOVE)
    return low, other_low


@triton.jit
def stake_of(amount, gap, size):
    """`lotteries._stake`."""
    trades = (gap > 0) & (amount > 0)
    stake = tl.where(trades, amount.to(tl.float64) / tl.where(trades, gap, 1.0), 0.0)
    return tl.minimum(to_nearest(tl.minimum(stake, size.to(tl.float64))).to(tl.int64), size)


@triton.jit
def stake(
    count, start, longs, floats, tables,
    COLUMNS: tl.constexpr, ROUNDS: tl.constexpr, TILE: tl.constexpr, CHUNKS: tl.constexpr, CHUNK_ROUNDS: tl.constexpr,
    CARRIES: tl.constexpr,
):  # fmt: skip
    """`lotteries.hold`, with one giver to a lottery."""
    node, chunk = tl.program_id(0).to(tl.int64), tl.program_id(1)
    if node < tl.load(count) - start:
        longs += node * LONGS * COLUMNS
        floats += node * FLOATS * COLUMNS
        tables += node * TABLES * CARRIES
        served, serves = longs + SERVED * COLUMNS, tables + SERVED * CARRIES
        wanted, wants = longs + WANTED * COLUMNS, tables + WANTED * CARRIES
        density, pivot, units = floats + DENSITY * COLUMNS, floats + PIVOT * COLUMNS, longs + UNITS * COLUMNS
        ranks = chunk * TILE + tl.arange(0, TILE)
        inside = ranks < COLUMNS
        want, serve = amount_of(wanted, ranks, inside, TILE), amount_of(served, ranks, inside, TILE)
        ends = tl.load(wanted + ranks, mask=inside, other=0) + tl.load(wants + chunk)
        high = tl.load(served + ranks, mask=inside, other=0) + tl.load(serves + chunk)
        mean = tl.load(density + ranks, mask=inside, other=0.0)
        start_at = tl.load(pivot + ranks, mask=inside, other=0.0)
        place = tl.load(units + ranks, mask=inside, other=0)
        home, latest = first_two(
            served, serves, ends - want, served, serves, ends, COLUMNS, ROUNDS, TILE, CHUNKS, CHUNK_ROUNDS, True, False
        )  # fmt: skip
        home = tl.minimum(home, COLUMNS - 1)
        oldest = first(wanted, wants, high - serve, COLUMNS, ROUNDS, TILE, CHUNKS, CHUNK_ROUNDS, True)
        oldest = tl.minimum(oldest, COLUMNS - 1)

        by_one = (want > 0) & (latest < COLUMNS) & (home == latest)
        alone = tl.where(by_one, stake_of(want, tl.load(pivot + home) - mean, place), 0)
        tl.store(longs + ALONE * COLUMNS + ranks, tl.cumsum(alone, 0), mask=inside)
        pass_on(tables + ALONE * CARRIES, chunk, tl.sum(alone), CARRIES)
        given = stake_of(serve, mean - start_at, place)
        tl.store(longs + GIVEN * COLUMNS + ranks, tl.cumsum(given, 0), mask=inside)
        pass_on(tables + GIVEN * CARRIES, chunk, tl.sum(given), CARRIES)
        amount = tl.minimum(summed(wanted, wants, oldest, TILE), high) - (high - serve)
        head = stake_of(amount, start_at - tl.load(density + oldest), tl.load(units + oldest))
        head = tl.where(serve > 0, head, 0)
        tl.store(longs + HEADS * COLUMNS + ranks, tl.cumsum(head, 0), mask=inside)
        pass_on(tables + HEADS * CARRIES, chunk, tl.sum(head), CARRIES)


@triton.jit
def places_of(
    ranks, entering, drawing, asked, longs, floats, tables,
    COLUMNS: tl.constexpr, ROUNDS: tl.constexpr, TILE: tl.constexpr, CHUNKS: tl.constexpr, CHUNK_ROUNDS: tl.constexpr,
    CARRIES: tl.constexpr,
):  # fmt: skip
    """`lotteries.show`: the places that drafts of some ranks show; `longs`, `floats`, `tables` are of one problem."""
    density, pivot, units = floats + DENSITY * COLUMNS, floats + PIVOT * COLUMNS, longs + UNITS * COLUMNS
    wanted, wants = longs + WANTED * COLUMNS, tables + WANTED * CARRIES
    served, serves = longs + SERVED * COLUMNS, tables + SERVED * CARRIES
    given, gifts = longs + GIVEN * COLUMNS, tables + GIVEN * CARRIES
    alone, alones = longs + ALONE * COLUMNS, tables + ALONE * CARRIES
    heads, oldests = longs + HEADS * COLUMNS, tables + HEADS * CARRIES

    # Which lottery each enters, if any.
    place = tl.load(units + ranks)
    position = (entering * place.to(tl.float64)).to(tl.int64)
    gift = summed(given, gifts, ranks, TILE) - summed_before(given, gifts, ranks, TILE)
    low, high = summed_before(wanted, wants, ranks, TILE), summed(wanted, wants, ranks, TILE)
    total = summed(served, serves, COLUMNS - 1, TILE)
    home, final = first_two(
        served, serves, low, served, serves, tl.minimum(high, total), COLUMNS, ROUNDS, TILE, CHUNKS, CHUNK_ROUNDS,
        True, False,
    )  # fmt: skip
    home, final = tl.minimum(home, COLUMNS - 1), tl.minimum(final, COLUMNS - 1)
    amount = tl.minimum(summed(served, serves, home, TILE), high) - low
    seeks = high > low
    put_in = tl.where(seeks, stake_of(amount, tl.load(pivot + home) - tl.load(density + ranks), place), 0)
    later = summed(heads, oldests, home, TILE) + position - put_in
    later = first(heads, oldests, later, COLUMNS, ROUNDS, TILE, CHUNKS, CHUNK_ROUNDS, True)
    enters_later = seeks & (position >= put_in) & (later > home) & (later <= final) & (low < total)
    lottery = tl.where(enters_later, tl.minimum(later, COLUMNS - 1), home)
    lottery = tl.where(gift > 0, ranks, lottery)
    enters = (position < tl.where(gift > 0, gift, put_in)) | enters_later

    # What is drawn there.
    low, high = summed_before(served, serves, lottery, TILE), summed(served, serves, lottery, TILE)
    oldest, newest = first_two(
        wanted, wants, low, wanted, wants, high, COLUMNS, ROUNDS, TILE, CHUNKS, CHUNK_ROUNDS, True, False
    )  # fmt: skip
    oldest, newest = tl.minimum(oldest, COLUMNS - 1), tl.minimum(newest, COLUMNS - 1)
    several = newest > oldest
    head = summed(heads, oldests, lottery, TILE) - summed_before(heads, oldests, lottery, TILE)
    so_far = summed(alone, alones, oldest, TILE)
    between = tl.where(several, summed_before(alone, alones, newest, TILE) - so_far, 0)
    gap = tl.load(pivot + lottery) - tl.load(density + newest)
    tail = stake_of(high - summed_before(wanted, wants, newest, TILE), gap, tl.load(units + newest))
    tail = tl.where(several, tail, 0)
    own = summed(given, gifts, lottery, TILE) - summed_before(given, gifts, lottery, TILE)
    held = head + between + tail + own
    position = tl.minimum((drawing * held.to(tl.float64)).to(tl.int64), held - 1)
    inside = first(alone, alones, so_far + position - head, COLUMNS, ROUNDS, TILE, CHUNKS, CHUNK_ROUNDS, True)
    drawn = tl.where(position >= head + between + tail, lottery, newest)
    drawn = tl.where(position < head + between, tl.minimum(inside, COLUMNS - 1), drawn)
    drawn = tl.where(position < head, oldest, drawn)
    return tl.where(asked, tl.where(enters, drawn, ranks), -1)
