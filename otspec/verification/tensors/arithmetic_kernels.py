"""Running sums, searches and powers in Triton: `fixed_point` and `measures`, operation by operation."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def before(
    sums,  # (k,)
    index,  # (LANES,)
):  # fmt: skip
    """`fixed_point.before`, for running sums in memory."""
    return tl.where(index > 0, tl.load(sums + tl.maximum(index - 1, 0)), 0)


@triton.jit
def halved(
    values,  # (k,)
    keys, low, high,  # (LANES,)
    ABOVE: tl.constexpr,
):  # fmt: skip
    """A round of a search for the first value that exceeds a key, or reaches it, somewhere from low to high."""
    middle = (low + high) >> 1
    there = low < high
    value = tl.load(values + middle, mask=there, other=0)
    beyond = ((value < keys) | ((value == keys) & ABOVE)) & there
    return tl.where(beyond, middle + 1, low), tl.where(beyond, high, tl.minimum(middle, high))


@triton.jit
def to_nearest(value):  # (LANES,)
    """Rounded as torch does: halves to the even number."""
    down = tl.floor(value)
    odd = down - 2.0 * tl.floor(0.5 * down)
    beyond = value - down
    return down + tl.where((beyond > 0.5) | ((beyond == 0.5) & (odd > 0.5)), 1.0, 0.0)


@triton.jit
def mean_density(
    low, high,  # (LANES,)
    n,  # scalar
    BITS_OF_N: tl.constexpr,
):  # fmt: skip
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
def power(
    base,  # (LANES,)
    n,  # scalar
    BITS_OF_N: tl.constexpr,
):  # fmt: skip
    """`measures.power` of one number of factors, unrolled; `powers` is for numbers that differ from lane to lane."""
    result = base
    for i in tl.static_range(BITS_OF_N):
        rest = n >> (BITS_OF_N - 1 - i)
        result = tl.where(rest > 1, result * result, result)
        result = tl.where((rest > 1) & (rest % 2 == 1), result * base, result)
    return result


@triton.jit
def powers(
    base, count,  # (LANES,)
    BITS: tl.constexpr,
):  # fmt: skip
    """`measures.power` of a number of factors that differs from lane to lane, of BITS binary digits at most."""
    result = base
    begun = count < 0
    for i in range(BITS):
        one = ((count >> (BITS - 1 - i)) & 1) == 1
        result = tl.where(begun, result * result, result)
        result = tl.where(begun & one, result * base, result)
        begun = begun | one
    return result


@triton.jit
def larger(one, other):  # scalars
    """Of two numbers."""
    return tl.maximum(one, other)


@triton.jit
def running_maximum(
    values, lanes,  # (LANES,)
    STEPS: tl.constexpr,
):  # fmt: skip
    """Largest of all values up to each lane, none of which is negative, of 2 to the STEPS lanes."""
    for step in tl.static_range(STEPS):
        earlier = tl.gather(values, tl.maximum(lanes - (1 << step), 0), 0)
        values = tl.maximum(values, tl.where(lanes >= (1 << step), earlier, 0))
    return values
