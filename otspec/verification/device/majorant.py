"""Least concave majorants of all rows at once: single segments, which are enough to verify rows, or all corners."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from otspec.verification.device.fixed_point import UNIT, at
from otspec.verification.device.measures import Counts, mean_density

ROUNDS = 64
"""Rounds of a search.  A dozen are enough for laws of models; two rounds divide height times width, of what is not yet
found, by 4 or more, so that nothing higher than 2**-32 can be left."""
HALVINGS = 4
"""Rounds in which all segments are halved: enough for laws of models; what is left only costs acceptance."""
LOW_HALF = 2**32 - 1
FLAT = 2.0**-51
"""A vertex that is no higher above a chord is rounding."""


class Curve(NamedTuple):
    """Points (run, fill**n) of rows, from (0, 0) to (1, 1); shapes (B, k + 1)."""

    run: Tensor
    fill: Tensor
    rise: Tensor
    n: int | Counts

    def slope(self, left: Tensor, right: Tensor) -> Tensor:
        """Of the chords between points, without a difference of powers; 0 where a chord is upright."""
        low, high = at(self.fill, left), at(self.fill, right)
        width = at(self.run, right) - at(self.run, left)
        return torch.where(width > 0, (high - low) * mean_density(low, high, self.n) / width, 0.0)

    def support(self, slope: Tensor) -> Tensor:
        """The point of each row that lies highest above lines of some slopes, shape (B, m); the first at a tie.

        The product is rounded before it is added: fused in places, as `addcmul` is, it would break ties elsewhere.
        """
        return (-slope.unsqueeze(2) * self.run.unsqueeze(1)).add_(self.rise.unsqueeze(1)).argmax(dim=2)


def segment(curve: Curve, left: Tensor, right: Tensor, goes_right: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
    """The ends of one segment of the majorant for each row and each search, shape (B, m).

    The support of a chord's slope is a vertex, and lies between the ends of the chord, if these are vertices.  It takes
    the place of one of them, until none is higher than the chord.  So a round is a product and a maximum along rows.

    Parameters
    ----------
    left, right : Tensor of int64, shape (B, m)
        Vertices to start from.
    goes_right : callable
        Of vertices, shape (B, m): whether the segment that is looked for starts there, or further right.
    """
    for _ in range(ROUNDS):
        slope = curve.slope(left, right)
        found = curve.support(slope)
        height = at(curve.rise, found) - at(curve.rise, left) - slope * (at(curve.run, found) - at(curve.run, left))
        between = (found > left) & (found < right) & (height > FLAT)
        # To stop early is to wait for the device; the host has nothing to wait for.
        if left.device.type == "cpu" and not torch.compiler.is_compiling() and not between.any():
            break
        on = goes_right(found)
        left = torch.where(between & on, found, left)
        right = torch.where(between & ~on, found, right)
    return left, right


def corners(run: Tensor, rise: Tensor, corner: Tensor) -> Tensor:
    """Where the least concave majorant turns, by halving all its segments at once, shape (R, k).

    Of every segment the point that is highest above it is a corner, until there is none; the first one of those whose
    heights agree to 24 digits, which may be next to a corner.  Each round halves what is not yet found, more or less.

    Parameters
    ----------
    run, rise : Tensor of int64, shape (R, k)
        Points, ascending in both coordinates, in units.
    corner : Tensor of bool, shape (R, k)
        Corners to start from, the ends among them.  A majorant is found between any two.
    """
    index = torch.arange(run.shape[1], device=run.device).expand_as(run)
    for _ in range(HALVINGS):
        left = torch.where(corner, index, 0).cummax(dim=1).values
        right = torch.where(corner, index, run.shape[1] - 1).flip(1).cummin(dim=1).values.flip(1)
        width, climb = (at(part, right) - at(part, left) for part in (run, rise))
        # Heights above a segment, times how far it runs: to compare them takes no quotient.
        width, climb = width.double(), climb.double()
        height = width * (rise - at(rise, left)).double() - climb * (run - at(run, left)).double()
        high = height > FLAT * UNIT * width
        # The height in single precision, and who comes first: one number tells the highest point, and at a tie one.
        key = (height.float().view(torch.int32).long() << 32) + (LOW_HALF - index)
        key = torch.where(high, key, 0)
        highest = torch.zeros_like(key).scatter_reduce(1, left, key, "amax")
        found = high & (key == at(highest, left))
        if run.device.type == "cpu" and not torch.compiler.is_compiling() and not found.any():
            break
        corner = corner | found
    return corner
