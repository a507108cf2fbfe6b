"""What laws are made of by vector instructions, to be inlined: the greatest score, and powers of e.

These are 2^k e^r, where |r| is at most log(2) / 2, by Taylor's polynomial.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from otspec.jit import jit_inlined

LOG_2_HIGH, LOG_2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
"""Of which the first has so few bits that multiples of it are exact."""
OVER_LOG_2 = float(1 / np.log(2.0))
SHIFT = 1.5 * 2.0**52
"""Added to a number up to 2^51 it rounds it, and the last bits of the sum are the integer."""
OF_64 = tuple(1.0 / math.factorial(power) for power in range(13, 1, -1))
OF_32 = tuple(np.float32(1.0 / math.factorial(power)) for power in range(6, 1, -1))
LOG_2_OF_32 = np.float32(np.log(2.0))
INFINITY = np.int32(0x7F800000)
"""Its bits in float32; those of NaN are beyond."""
NO_SIGN = np.int32(0x7FFFFFFF)
"""All bits but that of the sign."""


@jit_inlined
def greatest(scores: NDArray[np.float32]) -> float:
    """The greatest of scores, shape (k,); NaN if one is NaN or plus infinity.

    By integers in the same order, since vector instructions have no maximum of floats that minds a NaN.
    """
    bits = scores.view(np.int32)
    most, widest = ~INFINITY, np.int32(0)
    for place in range(len(bits)):
        most = max(most, bits[place] ^ (bits[place] >> 31 & NO_SIGN))
        widest = max(widest, bits[place] & NO_SIGN)
    if most >= INFINITY or widest > INFINITY:
        return np.nan
    return np.float64(np.int32(most ^ (most >> 31 & NO_SIGN)).view(np.float32))


@jit_inlined
def exp64(value: float) -> float:
    """e to a number up to 0, to 2.3e-16 of it, and 0 from e^-708 down."""
    bounded = max(value, -708.0)
    shifted = bounded * OVER_LOG_2 + SHIFT
    power = shifted - SHIFT
    r = (bounded - power * LOG_2_HIGH) - power * LOG_2_LOW
    a, b, c, d, e, f, g, h, i, j, k, m = OF_64
    found = (
        (((((((((a * r + b) * r + c) * r + d) * r + e) * r + f) * r + g) * r + h) * r + i) * r + j) * r + k
    ) * r + m
    found = found * r * r + r + 1.0
    scale = np.int64((np.float64(shifted).view(np.int64) << 52) + (1023 << 52)).view(np.float64)
    return found * scale if value > -708.0 else 0.0


@jit_inlined
def exp32(value: np.float32) -> np.float32:
    """e to a number, up to 5e-6 of it, and beyond e^-87 and e^87 these."""
    value = min(max(value, np.float32(-87.0)), np.float32(87.0))
    power = np.floor(value / LOG_2_OF_32 + np.float32(0.5))
    r = value - power * LOG_2_OF_32
    a, b, c, d, e = OF_32
    found = ((((a * r + b) * r + c) * r + d) * r + e) * r * r + r + np.float32(1.0)
    return found * np.uint32((np.int32(power) + 127) << 23).view(np.float32)
