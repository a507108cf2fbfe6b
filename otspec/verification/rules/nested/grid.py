"""Labels on a grid: which bins of [0, 1] the labels of a prefix lie in, and how they win.

A label is a bin and a fraction of it.  In a bin the labels of all prefixes are spread evenly, so that a prefix is
described by the masses of its bins.  The bin is all that matters of a label, but for who wins within it.
docs/device.md has the statement and its proof.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from otspec.verification.tensors.fixed_point import UNIT, amounts, at, before, first_above, running
from otspec.verification.tensors.measures import Counts, power

BINS = 256
"""Bins of a grid.  Within one, the chance to win is taken to be even; for K labels it differs by K / BINS, relative
to what it is at the top."""
FAINT = 2.0**-50
"""No label is taken to win less often than this, relative to the likeliest: its chances stay within reach of units."""


class Labels(NamedTuple):
    """The labels of R prefixes."""

    ends: Tensor
    """Shape (R, BINS): running sum of the masses of the bins, int64, in any unit."""
    density: Tensor
    """Shape (R, BINS): how likely a label of each bin is to win, relative to others, ascending up to 1."""


class Grown(NamedTuple):
    """What the slots of B trees own."""

    ends: Tensor
    """Shape (B, S, BINS): the labels of each slot's prefix, as `Labels` has them."""
    factor: Tensor
    """Shape (B, S, k + 1): what q of the groups of the next token is multiplied by, for the law of the winner's."""


def everything(shape: tuple[int, ...], device: torch.device) -> Labels:
    """All labels, and none likelier to win than another; shapes (*shape, BINS)."""
    ends = torch.arange(1, BINS + 1, device=device) * (int(UNIT) // BINS)
    density = torch.ones(BINS, dtype=torch.float64, device=device)
    return Labels(ends.expand(*shape, -1), density.expand(*shape, -1))


def interpolate(sums: Tensor, ends: Tensor, points: Tensor) -> Tensor:
    """What a running sum has come to at some points of a line, if it rises evenly from end to end; int64.

    Parameters
    ----------
    sums, ends : Tensor of int64, shape (R, k)
        The running sum of amounts, and where each of them ends.
    points : Tensor of int64, shape (R, m)
        At least 0.

    Returns
    -------
    Tensor of int64, shape (R, m)
        Ascending with the points, and exact at the ends.
    """
    place = first_above(ends, points).clamp(max=ends.shape[1] - 1)
    start, low = before(ends, place), before(sums, place)
    width, rise = at(ends, place) - start, at(sums, place) - low
    inside = points - start
    part = (inside.double() / width.clamp(min=1).double() * rise.double()).to(torch.int64)
    return low + torch.where(inside >= width, rise, torch.minimum(part.clamp(min=0), rise))


def chances(masses: Tensor, density: Tensor) -> Tensor:
    """The law of the bin that a winner is in, as a running sum, shape (R, BINS)."""
    return running((masses.double() * density).to(torch.int64))


def branch(labels: Labels, children: Tensor, most: int) -> Labels:
    """What prefixes own, as the labels of any one of their children, of which the largest is theirs.

    One child has its parent's labels.  The largest of b uniform numbers lies below s with probability s**b; so what the
    children draw is a number s of a grid of its own, and s**b is how much of the parent's labels lie below.

    Parameters
    ----------
    labels : Labels
    children : Tensor of int64, shape (R,)
        How many there are, `most` at most.
    """
    if most == 1:
        return labels
    masses = amounts(labels.ends)
    wins = chances(masses, labels.density)
    steps = torch.arange(1, BINS + 1, dtype=torch.float64, device=masses.device) / BINS
    several = Counts(children.clamp(min=1)[:, None], most)
    points = (power(steps.expand_as(labels.density), several) * labels.ends[:, -1:].double()).to(torch.int64)
    points = torch.minimum(points, labels.ends[:, -1:])
    reached = interpolate(wins, labels.ends, points)
    own = amounts(reached).double()
    top = own.amax(dim=1, keepdim=True)
    own = torch.where(top > 0, own / top, 1.0).clamp(min=FAINT)
    whole = everything(tuple(children.shape), children.device)
    alone = (children <= 1)[:, None]
    return Labels(torch.where(alone, labels.ends, whole.ends), torch.where(alone, labels.density, own))
