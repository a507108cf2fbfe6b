"""Masses as integers: their sums do not depend on the order of the additions, hence not on the device or the rank."""

from __future__ import annotations

import torch
from torch import Tensor

UNIT = 2.0**62
"""Units in a total of 1.  A law whose total is off by less than `MASS_TOL` still fits into 63 bits."""


def to_units(mass: Tensor) -> Tensor:
    """Probabilities, float64 of any shape, in whole units of 2**-62, int64: exact from 2**-9 on, else the nearest."""
    return (mass * UNIT + 0.5).floor().to(torch.int64)


def running(units: Tensor) -> Tensor:
    """Sums of the first j + 1 entries of each row of units, shape (B, k): the same on every device."""
    return units.cumsum(dim=1)


def amounts(sums: Tensor) -> Tensor:
    """What running sums, shape (B, k), add up."""
    return sums - torch.nn.functional.pad(sums[:, :-1], (1, 0))


def from_zero(sums: Tensor) -> Tensor:
    """Running sums of units as shares of their total, with a 0 in front: ascending from 0 to exactly 1."""
    return torch.nn.functional.pad(sums.double() / sums[:, -1:].double(), (1, 0))


def at(values: Tensor, index: Tensor) -> Tensor:
    """What rows hold at places of their own: shapes (B, k) and (B, m) to (B, m)."""
    return values.gather(1, index)


def before(sums: Tensor, index: Tensor) -> Tensor:
    """What running sums were before these entries: 0 at the first."""
    return torch.where(index > 0, at(sums, (index - 1).clamp(min=0)), 0)


def first_above(sums: Tensor, units: Tensor) -> Tensor:
    """The first entry at which running sums, shape (B, k), exceed units, shape (B, m); k if none does: shape (B, m)."""
    return torch.searchsorted(sums, units.contiguous(), right=True)


def draw(sums: Tensor, uniform: Tensor) -> Tensor:
    """Draws from laws by their running sums in units, shape (B, k), and numbers in [0, 1), shape (B, m)."""
    total = sums[:, -1:]
    point = torch.minimum((uniform * total).to(torch.int64), total - 1)
    return first_above(sums, point).clamp(max=sums.shape[1] - 1)


def first_reaching(sums: Tensor, units: Tensor) -> Tensor:
    """The first entry at which running sums reach some numbers of units; the number of entries, if none does."""
    return torch.searchsorted(sums, units.contiguous(), right=False)
