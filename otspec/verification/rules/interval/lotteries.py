"""Lotteries of all rows at once: who puts in what, which lottery a draft enters, and the place that it draws there.

Seekers are served first come, first served.  So what seekers want and what givers serve are two ascending lists of
running sums on one axis, and every question is a search in one of them: a seeker meets the givers whose intervals on
that axis overlap with its own.  Ranks that neither seek nor give have empty intervals.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from otspec.verification.tensors.fixed_point import at, before, first_above, first_reaching, running


class Lotteries(NamedTuple):
    """The lotteries of B rows of k places.  One goes by the rank of its first giver, and aims at the pivot there.

    All have shape (B, k); sums include the entry that they stand at; stakes and wishes are in units.
    """

    size: Tensor
    """Places, in units."""
    density: Tensor
    """Mean of n u**(n - 1) over each place."""
    pivot: Tensor
    """Where a lottery starts: the mean density of what is put in."""
    first: Tensor
    """Of a giver: the first giver of its lottery."""
    past: Tensor
    """Of a giver: one past the last giver of its lottery."""
    wanted: Tensor
    """Running sum of what seekers want."""
    served: Tensor
    """Running sum of what givers serve."""
    given: Tensor
    """Running sum of the stakes of givers."""
    alone: Tensor
    """Running sum of the stakes of seekers that one lottery serves whole."""
    heads: Tensor
    """Running sum, over lotteries, of the stake of the oldest seeker."""


class Draft(NamedTuple):
    """The lottery that each draft enters, and what it may draw there; shapes (B, n)."""

    lottery: Tensor
    enters: Tensor


def hold(
    size: Tensor, density: Tensor, pivot: Tensor, first: Tensor, past: Tensor, wants: Tensor, serves: Tensor
) -> Lotteries:
    """Hold the lotteries, given what every seeker wants and every giver serves, in units, and where lotteries start."""
    wanted, served = running(wants), running(serves)
    last = size.shape[1] - 1
    earliest = first_above(served, wanted - wants).clamp(max=last)
    latest = first_reaching(served, wanted)
    home = at(first, earliest)
    whole = (wants > 0) & (latest <= last) & (home == at(first, latest.clamp(max=last)))
    alone = torch.where(whole, _stake(wants, at(pivot, home) - density, size), 0)
    given = _stake(serves, density - at(pivot, first), size)

    ranks = torch.arange(last + 1, device=size.device)
    low, high = served - serves, at(served, past - 1)
    oldest = first_above(wanted, low).clamp(max=last)
    amount = torch.minimum(at(wanted, oldest), high) - low
    heads = _stake(amount, pivot - at(density, oldest), at(size, oldest))
    heads = torch.where((serves > 0) & (first == ranks), heads, 0)
    return Lotteries(size, density, pivot, first, past, wanted, served, running(given), running(alone), running(heads))


def show(lots: Lotteries, ranks: Tensor, uniforms: Tensor) -> Tensor:
    """The rank of the place that each draft's point lies in: its own, or one that it draws in a lottery.

    Parameters
    ----------
    ranks : Tensor of int64, shape (B, n)
        Ranks of the drafts.
    uniforms : Tensor, shape (B, n, 2)
        Numbers in [0, 1): which lottery, if any; what is drawn there.
    """
    lottery, enters = _enter(lots, ranks, uniforms[..., 0])
    return torch.where(enters, _draw(lots, lottery, uniforms[..., 1]), ranks)


def highest(places: Tensor, fractions: Tensor) -> Tensor:
    """The draft whose point is the largest, shape (B, 1): a point is a place and a fraction; places below 0 are out."""
    top = places.max(dim=1, keepdim=True).values
    return torch.where(places == top, fractions, -1.0).argmax(dim=1, keepdim=True)


def _stake(amount: Tensor, gap: Tensor, size: Tensor) -> Tensor:
    """What has to be put in so that an amount changes hands, no more than there is, and nothing across a gap <= 0."""
    stake = torch.where((gap > 0) & (amount > 0), amount / gap, 0.0)
    return torch.minimum(torch.minimum(stake, size.double()).round().to(torch.int64), size)


def _enter(lots: Lotteries, ranks: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor]:
    """Which lottery each draft enters, and whether it enters any."""
    last = lots.size.shape[1] - 1
    size, density = at(lots.size, ranks), at(lots.density, ranks)
    position = (uniform * size).to(torch.int64)
    given = at(lots.given, ranks) - before(lots.given, ranks)
    low, high = before(lots.wanted, ranks), at(lots.wanted, ranks)
    # A seeker's first lottery serves it as one of several.
    home = at(lots.first, first_above(lots.served, low).clamp(max=last))
    amount = torch.minimum(at(lots.served, at(lots.past, home) - 1), high) - low
    stake = torch.where(high > low, _stake(amount, at(lots.pivot, home) - density, size), 0)
    # It is the oldest seeker of all that follow.
    total = lots.served[:, -1:]
    final = at(lots.first, first_reaching(lots.served, torch.minimum(high, total)).clamp(max=last))
    later = first_above(lots.heads, at(lots.heads, home) + position - stake)  # past the last rank: it stays out
    seeks, gives = high > low, given > 0
    enters_later = seeks & (position >= stake) & (later > home) & (later <= final) & (low < total)
    lottery = torch.where(gives, at(lots.first, ranks), torch.where(enters_later, later.clamp(max=last), home))
    return lottery, (position < torch.where(gives, given, stake)) | enters_later


def _draw(lots: Lotteries, lottery: Tensor, uniform: Tensor) -> Tensor:
    """The rank that is drawn in each lottery: by what was put in, seekers first, ascending."""
    last = lots.size.shape[1] - 1
    past = at(lots.past, lottery)
    low, high = before(lots.served, lottery), at(lots.served, past - 1)
    oldest = first_above(lots.wanted, low).clamp(max=last)
    newest = first_reaching(lots.wanted, high).clamp(max=last)
    several = newest > oldest
    head = at(lots.heads, lottery) - before(lots.heads, lottery)
    between = torch.where(several, before(lots.alone, newest) - at(lots.alone, oldest), 0)
    gap = at(lots.pivot, lottery) - at(lots.density, newest)
    tail = torch.where(several, _stake(high - before(lots.wanted, newest), gap, at(lots.size, newest)), 0)
    given_before = before(lots.given, lottery)
    givers = at(lots.given, past - 1) - given_before

    held = head + between + tail + givers
    position = torch.minimum((uniform * held).to(torch.int64), held - 1)
    inside = first_above(lots.alone, at(lots.alone, oldest) + position - head).clamp(max=last)
    beyond = position - (head + between + tail)
    giver = first_above(lots.given, given_before + beyond.clamp(min=0)).clamp(max=last)
    drawn = torch.where(beyond >= 0, giver, newest)
    drawn = torch.where(position < head + between, inside, drawn)
    return torch.where(position < head, oldest, drawn)
