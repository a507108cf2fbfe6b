"""The largest of n uniform points: how likely it is to fall into an interval."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Counts(NamedTuple):
    """Numbers of points, one for each row."""

    each: Tensor
    """Shape (B, 1), int64, at least 1."""
    most: int
    """A bound on all of them."""


def mean_density(low: Tensor, high: Tensor, n: int | Counts) -> Tensor:
    """Mean of n u**(n - 1) over [low, high]: the sum over i of high**i * low**(n - 1 - i).

    All terms are positive, where the difference of powers would have no correct digit left.  The sum S(n) is built by
    doubling, from S(2m) = S(m) * (high**m + low**m) and S(m + 1) = S(m) * high + low**m.
    """
    if isinstance(n, Counts):
        return _mean_density_of_each(low, high, n)
    density, low_m, high_m = torch.ones_like(low), low, high
    for bit in f"{n:b}"[1:]:
        density = density * (high_m + low_m)
        low_m, high_m = low_m * low_m, high_m * high_m
        if bit == "1":
            density = density * high + low_m
            low_m, high_m = low_m * low, high_m * high
    return density


def power(base: Tensor, n: int | Counts) -> Tensor:
    """base**n by squaring: the same products on every device."""
    if isinstance(n, Counts):
        return _power_of_each(base, n)
    result = base
    for bit in f"{n:b}"[1:]:
        result = result * result
        if bit == "1":
            result = result * base
    return result


def _mean_density_of_each(low: Tensor, high: Tensor, n: Counts) -> Tensor:
    """`mean_density`, product for product, where a row's first digits may be 0."""
    density, low_m, high_m = torch.ones_like(low), low, high
    begun = torch.zeros_like(n.each, dtype=torch.bool)
    for digit in range(n.most.bit_length() - 1, -1, -1):
        one = (n.each >> digit) % 2 == 1
        density = torch.where(begun, density * (high_m + low_m), density)
        low_m, high_m = torch.where(begun, low_m * low_m, low_m), torch.where(begun, high_m * high_m, high_m)
        density = torch.where(begun & one, density * high + low_m, density)
        low_m = torch.where(begun & one, low_m * low, low_m)
        high_m = torch.where(begun & one, high_m * high, high_m)
        begun = begun | one
    return density


def _power_of_each(base: Tensor, n: Counts) -> Tensor:
    result, begun = base, torch.zeros_like(n.each, dtype=torch.bool)
    for digit in range(n.most.bit_length() - 1, -1, -1):
        one = (n.each >> digit) % 2 == 1
        result = torch.where(begun, result * result, result)
        result = torch.where(begun & one, result * base, result)
        begun = begun | one
    return result
