"""Exchanges of the buckets in Triton: `exchanges.exchange` and `exchanges.show`, a donor to each, to the last bit."""

from __future__ import annotations

import triton
import triton.language as tl

from otspec.verification.rules.buckets.chunk_kernels import (
    ALONE,
    DENSITY,
    FLOATS,
    HEADS,
    LONGS,
    PUT_IN,
    SERVED,
    TABLES,
    THRESHOLD,
    UNITS,
    WANTED,
    amount_of,
    chunked,
    first,
    first_above_and_reaching,
    pass_on,
    summed,
    summed_before,
)
from otspec.verification.rules.buckets.cut import TILE, Cut, Planes
from otspec.verification.tensors.arithmetic_kernels import to_nearest


@triton.jit
def contribution_of(amount, gap, size):  # (LANES,)
    """`exchanges._contribution`."""
    trades = (gap > 0) & (amount > 0)
    part = tl.where(trades, amount.to(tl.float64) / tl.where(trades, gap, 1.0), 0.0)
    return tl.minimum(to_nearest(tl.minimum(part, size.to(tl.float64))).to(tl.int64), size)


@triton.jit
def contribute(
    count,  # (1,)
    start,  # scalar: the first problem of the wave
    longs, floats, tables,  # (W, LONGS, COLUMNS), (W, FLOATS, COLUMNS), (W, TABLES, CARRIES)
    COLUMNS: tl.constexpr, CHUNKS: tl.constexpr, CARRIES: tl.constexpr, CHUNK_ROUNDS: tl.constexpr,
):  # fmt: skip
    """`exchanges.exchange`, with one donor to an exchange."""
    cut: tl.constexpr = Cut(COLUMNS, CHUNKS, CARRIES, CHUNK_ROUNDS)
    node, chunk = tl.program_id(0).to(tl.int64), tl.program_id(1)
    if node < tl.load(count) - start:
        longs += node * LONGS * COLUMNS
        floats += node * FLOATS * COLUMNS
        tables += node * TABLES * CARRIES
        planes = Planes(longs, floats, tables)
        served, wanted = chunked(planes, SERVED, cut), chunked(planes, WANTED, cut)
        density, threshold, units = floats + DENSITY * COLUMNS, floats + THRESHOLD * COLUMNS, longs + UNITS * COLUMNS
        ranks = chunk * TILE + tl.arange(0, TILE)
        inside = ranks < COLUMNS
        want, serve = amount_of(wanted.sums, ranks, inside), amount_of(served.sums, ranks, inside)
        ends = tl.load(wanted.sums + ranks, mask=inside, other=0) + tl.load(wanted.table + chunk)
        high = tl.load(served.sums + ranks, mask=inside, other=0) + tl.load(served.table + chunk)
        mean = tl.load(density + ranks, mask=inside, other=0.0)
        start_at = tl.load(threshold + ranks, mask=inside, other=0.0)
        place = tl.load(units + ranks, mask=inside, other=0)
        home, latest = first_above_and_reaching(served, ends - want, ends, cut)
        home = tl.minimum(home, COLUMNS - 1)
        oldest = first(wanted, high - serve, cut, True)
        oldest = tl.minimum(oldest, COLUMNS - 1)

        by_one = (want > 0) & (latest < COLUMNS) & (home == latest)
        alone = tl.where(by_one, contribution_of(want, tl.load(threshold + home) - mean, place), 0)
        tl.store(longs + ALONE * COLUMNS + ranks, tl.cumsum(alone, 0), mask=inside)
        pass_on(tables + ALONE * CARRIES, chunk, tl.sum(alone), CARRIES)
        contributed = contribution_of(serve, mean - start_at, place)
        tl.store(longs + PUT_IN * COLUMNS + ranks, tl.cumsum(contributed, 0), mask=inside)
        pass_on(tables + PUT_IN * CARRIES, chunk, tl.sum(contributed), CARRIES)
        amount = tl.minimum(summed(wanted, oldest), high) - (high - serve)
        head = contribution_of(amount, start_at - tl.load(density + oldest), tl.load(units + oldest))
        head = tl.where(serve > 0, head, 0)
        tl.store(longs + HEADS * COLUMNS + ranks, tl.cumsum(head, 0), mask=inside)
        pass_on(tables + HEADS * CARRIES, chunk, tl.sum(head), CARRIES)


@triton.jit
def places_of(
    ranks, entering, drawing, valid,  # (LANES,)
    planes,  # `Planes`
    cut,  # `Cut`
):  # fmt: skip
    """`exchanges.show`: the places that drafts of some ranks show, -1 of those that are not valid."""
    density, threshold = planes.floats + DENSITY * cut.COLUMNS, planes.floats + THRESHOLD * cut.COLUMNS
    units = planes.longs + UNITS * cut.COLUMNS
    wanted, served = chunked(planes, WANTED, cut), chunked(planes, SERVED, cut)
    contributed, alone, heads = chunked(planes, PUT_IN, cut), chunked(planes, ALONE, cut), chunked(planes, HEADS, cut)
    last = cut.COLUMNS - 1

    # Which exchange each enters, if any.
    place = tl.load(units + ranks)
    position = (entering * place.to(tl.float64)).to(tl.int64)
    gift = summed(contributed, ranks) - summed_before(contributed, ranks)
    low, high = summed_before(wanted, ranks), summed(wanted, ranks)
    total = summed(served, last)
    home, final = first_above_and_reaching(served, low, tl.minimum(high, total), cut)
    home, final = tl.minimum(home, last), tl.minimum(final, last)
    amount = tl.minimum(summed(served, home), high) - low
    receives = high > low
    put_in = contribution_of(amount, tl.load(threshold + home) - tl.load(density + ranks), place)
    put_in = tl.where(receives, put_in, 0)
    later = summed(heads, home) + position - put_in
    later = first(heads, later, cut, True)
    enters_later = receives & (position >= put_in) & (later > home) & (later <= final) & (low < total)
    exchange = tl.where(enters_later, tl.minimum(later, last), home)
    exchange = tl.where(gift > 0, ranks, exchange)
    enters = (position < tl.where(gift > 0, gift, put_in)) | enters_later

    # What is drawn there.
    low, high = summed_before(served, exchange), summed(served, exchange)
    oldest, newest = first_above_and_reaching(wanted, low, high, cut)
    oldest, newest = tl.minimum(oldest, last), tl.minimum(newest, last)
    several = newest > oldest
    head = summed(heads, exchange) - summed_before(heads, exchange)
    so_far = summed(alone, oldest)
    between = tl.where(several, summed_before(alone, newest) - so_far, 0)
    gap = tl.load(threshold + exchange) - tl.load(density + newest)
    tail = contribution_of(high - summed_before(wanted, newest), gap, tl.load(units + newest))
    tail = tl.where(several, tail, 0)
    own = summed(contributed, exchange) - summed_before(contributed, exchange)
    held = head + between + tail + own
    position = tl.minimum((drawing * held.to(tl.float64)).to(tl.int64), held - 1)
    inside = first(alone, so_far + position - head, cut, True)
    drawn = tl.where(position >= head + between + tail, exchange, newest)
    drawn = tl.where(position < head + between, tl.minimum(inside, last), drawn)
    drawn = tl.where(position < head, oldest, drawn)
    return tl.where(valid, tl.where(enters, drawn, ranks), -1)
