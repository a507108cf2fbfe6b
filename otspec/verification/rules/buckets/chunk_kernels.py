"""Running sums of the buckets in Triton, stored in chunks.

Beside a running sum within chunks there is a table of what ran up before each chunk: programs add the sum of their own
to the entries of all later chunks, and sums of integers do not depend on who comes first.

Planes are the arrays of one problem.  A running sum has the number of its table.
"""

from __future__ import annotations

import triton
import triton.language as tl

from otspec.verification.rules.buckets.cut import PLANES, ROUNDS, TILE, Chunked
from otspec.verification.tensors.arithmetic_kernels import halved

HELD, MASSES, RAN, SERVED, WISHED, WANTED, PUT_IN, ALONE, HEADS = (tl.constexpr(plane) for plane in range(9))
SIZE, TARGET, UNITS = (tl.constexpr(plane) for plane in range(9, 12))
DENSITY, THRESHOLD = (tl.constexpr(plane) for plane in range(2))
IDLE = tl.constexpr(9)
LONGS, FLOATS, TABLES = (tl.constexpr(planes) for planes in PLANES)


@triton.jit
def chunked(
    planes,  # `Planes`
    PLANE: tl.constexpr,
    cut,  # `Cut`
):  # fmt: skip
    """One of the running sums of a problem."""
    return Chunked(planes.longs + PLANE * cut.COLUMNS, planes.tables + PLANE * cut.CARRIES)


@triton.jit
def summed(
    running,  # `Chunked`
    index,  # (LANES,)
):  # fmt: skip
    """A running sum that is stored in chunks."""
    return tl.load(running.sums + index) + tl.load(running.table + index // TILE)


@triton.jit
def summed_before(
    running,  # `Chunked`
    index,  # (LANES,)
):  # fmt: skip
    """`fixed_point.before`, for such a sum."""
    return tl.where(index > 0, summed(running, tl.maximum(index - 1, 0)), 0)


@triton.jit
def amount_of(
    sums,  # (COLUMNS,)
    ranks, inside,  # (TILE,)
):  # fmt: skip
    """What such a sum adds up, of the ranks of one chunk."""
    earlier = tl.load(sums + ranks - 1, mask=inside & (ranks % TILE > 0), other=0)
    return tl.load(sums + ranks, mask=inside, other=0) - earlier


@triton.jit
def pass_on(
    table,  # (CARRIES,)
    chunk, amount,  # scalars
    CARRIES: tl.constexpr,
):  # fmt: skip
    """Add to what has run up before all later chunks; the entry after that of the last chunk is the total."""
    chunks = tl.arange(0, CARRIES)
    tl.atomic_add(table + chunks, tl.zeros([CARRIES], tl.int64) + amount, mask=chunks > chunk, sem="relaxed")


@triton.jit
def bracket(
    table,  # (CARRIES,)
    keys,  # (LANES,)
    cut,  # `Cut`
    ABOVE: tl.constexpr,
):  # fmt: skip
    """Where to search a running sum stored in chunks, from a first to a last entry, and for what within a chunk.

    Both are `COLUMNS` if the total is not enough.
    """
    low = tl.zeros_like(keys).to(tl.int32)
    high = low + cut.CHUNKS
    for _ in range(cut.CHUNK_ROUNDS):
        low, high = halved(table + 1, keys, low, high, ABOVE)
    found = low < cut.CHUNKS
    start = low * TILE
    last = tl.where(found, tl.minimum(start + TILE, cut.COLUMNS) - 1, cut.COLUMNS)
    return tl.where(found, start, cut.COLUMNS), last, keys - tl.load(table + tl.minimum(low, cut.CHUNKS))


@triton.jit
def first(
    running,  # `Chunked`
    keys,  # (LANES,)
    cut,  # `Cut`
    ABOVE: tl.constexpr,
):  # fmt: skip
    """`fixed_point.first_above`, or `first_reaching`, for a running sum that is stored in chunks."""
    low, high, within = bracket(running.table, keys, cut, ABOVE)
    for _ in range(ROUNDS):
        low, high = halved(running.sums, within, low, high, ABOVE)
    return low


@triton.jit
def first_above_and_reaching(
    running,  # `Chunked`
    keys, other_keys,  # (LANES,)
    cut,  # `Cut`
):  # fmt: skip
    """Two searches in one sum, above some keys and reaching others: their rounds wait for memory together."""
    low, high, within = bracket(running.table, keys, cut, True)
    other_low, other_high, other_within = bracket(running.table, other_keys, cut, False)
    for _ in range(ROUNDS):
        low, high = halved(running.sums, within, low, high, True)
        other_low, other_high = halved(running.sums, other_within, other_low, other_high, False)
    return low, other_low
