"""The largest of n uniform points: how likely it is to fall into an interval."""

from __future__ import annotations

import torch
from torch import Tensor


def mean_density(low: Tensor, high: Tensor, n: int) -> Tensor:
    """Mean of n u**(n - 1) over [low, high]: the sum over i of high**i * low**(n - 1 - i).

    All terms are positive, where the difference of powers would have no correct digit left.  The sum S(n) is built by
    doubling, from S(2m) = S(m) * (high**m + low**m) and S(m + 1) = S(m) * high + low**m.
    """
    density, low_m, high_m = torch.ones_like(low), low, high
    for bit in bin(n)[3:]:
        density = density * (high_m + low_m)
        low_m, high_m = low_m * low_m, high_m * high_m
        if bit == "1":
            density = density * high + low_m
            low_m, high_m = low_m * low, high_m * high
    return density


def power(base: Tensor, n: int) -> Tensor:
    """base**n by squaring: the same products on every device."""
    result = base
    for bit in bin(n)[3:]:
        result = result * result
        if bit == "1":
            result = result * base
    return result
