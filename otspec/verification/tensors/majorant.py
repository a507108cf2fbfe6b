"""Least concave majorants of all rows at once: single segments, which are enough to verify rows, or all breakpoints."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from otspec.verification.tensors.fixed_point import at
from otspec.verification.tensors.measures import Counts, mean_density

ROUNDS = 64
"""Rounds of a search.  A dozen are enough for laws of models; two rounds divide height times width, of what is not yet
found, by 4 or more, so that nothing higher than 2**-32 can be left."""
HALVINGS = 4
"""Rounds in which all segments are halved: enough for laws of models; what is left only costs acceptance."""
FLAT = 2.0**-51
"""A vertex that is no higher above a chord is rounding."""
NOISE, LEAST = 2.0**40, 2.0**33
"""In single precision and in units: a point that is no higher above a segment, over what the segment runs and rises, is
rounding, or its segment is too short to matter."""
KEY_BITS, HEIGHT_BITS, LOWEST = 31, 30, (127 + 32) << 23
"""Of numbers that order points by their segments, their heights and who comes first; of heights, beyond the lowest."""


class Curve(NamedTuple):
    """Points (run, fill**n) of rows, from (0, 0) to (1, 1)."""

    run: Tensor
    """Shape (B, k + 1)."""
    fill: Tensor
    """Shape (B, k + 1)."""
    rise: Tensor
    """Shape (B, k + 1): fill**n."""
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
        Of vertices, shape (B, m): whether the segment sought starts there, or further right.
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


def key_shifts(places: int) -> tuple[int, int]:
    """By how many digits heights are cut, and segments moved up, for a key of so many places, a power of two."""
    number = KEY_BITS - (HALVINGS + 1)  # three segments, and twice as many after each round
    return HEIGHT_BITS - (number - (places.bit_length() - 1)), number


def breakpoints(run: Tensor, rise: Tensor, one: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
    """The breakpoints of the least concave majorant around every point, by halving all its segments at once.

    Of every segment the point that is highest above it is a breakpoint, until there is none.  Each round halves what is
    not yet found, more or less.  All this is in single precision, and heights are compared to three digits, of 2000
    points to two: the first of those that agree may be next to a breakpoint, and the next round finds that.

    Parameters
    ----------
    run, rise : Tensor of float32, shape (R, k)
        Points, ascending in both coordinates, in units.
    one, other : Tensor of int64, shape (R, 1)
        Breakpoints to start from, beside the ends.  A majorant is found between any two.

    Returns
    -------
    tuple of two Tensors of int64, shape (R, k)
        The breakpoint before each point, and the one after it; a breakpoint itself twice.
    """
    last = run.shape[1] - 1
    index = torch.arange(last + 1, device=run.device).expand_as(run)
    low, high = torch.minimum(one, other), torch.maximum(one, other)
    begin = torch.where(index < low, 0, torch.where(index < high, low, torch.where(index < last, high, last)))
    end = torch.where(index <= low, low, torch.where(index <= high, high, last))
    end = torch.where(index == 0, 0, end)
    segment = (index >= low).long() + (index >= high).long()
    places = 1 << last.bit_length()
    shift, number = key_shifts(places)
    for _ in range(HALVINGS):
        width, ascent = (at(part, end) - at(part, begin) for part in (run, rise))
        # Heights above a segment, times how far it runs: to compare them takes no quotient.
        height = width * (rise - at(rise, begin)) - ascent * (run - at(run, begin))
        high_above = height > (NOISE * (width + ascent)).clamp(min=LEAST)
        code = (height.view(torch.int32).long() - LOWEST) >> shift
        key = torch.where(high_above, code * places + (places - 1 - index), 0)
        # Segments ascend: a running maximum of numbers that begin with them has at a segment's last point its highest.
        first = segment << number
        highest = at((first + key).cummax(dim=1).values, (end - 1).clamp(min=0)) - first
        parted = (highest > 0) & (index > begin) & (index < end)
        vertex = places - 1 - highest % places
        segment = 2 * segment + (parted & (index >= vertex)).long()
        begin = torch.where(parted & (index >= vertex), vertex, begin)
        end = torch.where(parted & (index <= vertex), vertex, end)
    return begin, end
