"""The largest of several uniform numbers, and intervals under powers: sums of positive terms only.

Intervals are (low, length), never (low, high): a difference of ends, or of their powers, would lose short ones.
"""

from __future__ import annotations

import numpy as np

from otspec.jit import jit


@jit
def power_density(low: float, length: float, power: int) -> float:
    """Mean over [low, low + length] of the density power * s**(power - 1), that of the largest of `power` labels.

    It is the sum over i of (low + length)**i * low**(power-1-i), all terms positive: a difference of powers would lose
    short intervals.
    """
    high = low + length
    total = 0.0
    term = 1.0
    for _ in range(power):
        total = total * high + term
        term *= low
    return total


@jit
def climb(low: float, length: float, start: float, extent: float, power: int) -> tuple[float, float]:
    """Where the power of a part lies in the power of the whole: how far in, and how long, as fractions.

    The part is [low + start, low + start + extent], the whole [low, low + length].
    """
    high = low + length
    if not length > 0.0:
        return 0.0, 1.0
    bottom, whole = low / high, length / high
    if not whole > 0.0:
        return start / length, extent / length
    total = whole * power_density(bottom, whole, power)
    start, extent = start / high, extent / high
    before = start * power_density(bottom, start, power)
    return before / total, extent * power_density(bottom + start, extent, power) / total


@jit
def descend(low: float, length: float, fraction: float, power: int) -> float:
    """Fraction of [low, low + length] whose power is this fraction of the interval's power: the inverse of `climb`."""
    if not 0.0 < fraction < 1.0 or not length > 0.0:
        return min(max(fraction, 0.0), 1.0)
    exponent = power * (np.log(low + length) - np.log(low)) if low > 0.0 else np.inf
    if exponent > 600.0:  # what the power of `low` adds is out of floats
        return max(fraction ** (1.0 / power) * (1.0 + low / length) - low / length, 0.0)
    width = length / low
    return min(np.expm1(np.log1p(fraction * np.expm1(power * np.log1p(width))) / power) / width, 1.0)


@jit
def root_length(low: float, length: float, power: int) -> float:
    """Length of the interval of numbers whose power lies in [low, low + length]."""
    if not low > 1e-300 * length:
        return (low + length) ** (1.0 / power)
    return low ** (1.0 / power) * np.expm1(np.log1p(length / low) / power)
