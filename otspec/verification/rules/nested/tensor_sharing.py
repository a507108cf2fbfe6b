"""How prefixes share their labels among their children: `sharing`, for all rows at once and on a grid.

The children are laid as places along the prefix's labels, in ascending order of p/q, each as long as its q.  The least
concave majorant cuts them into blocks, in which those that are worth less than their due swap parts of their places
with later ones that are worth more.  All that is found is how much each of them owns in the end; of a drafted child
also in which bins.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from otspec.verification.rules.nested.grid import Labels, chances, interpolate
from otspec.verification.tensors.fixed_point import UNIT, amounts, at, before, first_above, running
from otspec.verification.tensors.groups import Groups
from otspec.verification.tensors.majorant import breakpoints

HEIGHTS, FIRST = 2.0**21, 512
"""Which groups come first is decided by 21 digits of a height, and then by the order of at most so many groups."""


class GroupsAt(NamedTuple):
    """What sharing needs to know of the laws at R prefixes, and of their C drafted children."""

    groups: Groups
    p: Tensor
    """Shape (C,): of each child's token."""
    q: Tensor
    """Shape (C,), likewise."""
    group: Tensor
    """Shape (C,), likewise."""


class Sharing(NamedTuple):
    """What the children of R prefixes own; m places, which ascend."""

    factor: Tensor
    """Shape (R, k + 1): how likely the winner's next token is each of a group's, over q; 0 for the last."""
    rank: Tensor
    """Shape (R, k, parts): the places of each group."""
    size: Tensor
    """Shape (R, m): the length of each place, in units."""
    worth: Tensor
    """Shape (R, m): the mean density of the winner's label on each."""
    wanted: Tensor
    """Shape (R, m): running sum of what places get by swaps."""
    served: Tensor
    """Shape (R, m): running sum of what places give."""
    bins: Tensor
    """Shape (R, BINS): where the bins of the prefix end along the places."""


def nearest(units: Tensor) -> Tensor:
    """Amounts that are not negative, float64, in whole units."""
    return (units + 0.5).to(torch.int64)


def share(groups: Groups, labels: Labels, weight: Tensor, spread: Tensor | None) -> Sharing:
    """Share what prefixes own among their children.

    Parameters
    ----------
    groups : Groups
    labels : Labels
        Of any one child of each prefix.
    weight : Tensor, shape (R,)
        The block-verification weights of the prefixes; only look-ahead uses them.
    spread : Tensor, shape (parts,), optional
        Look-ahead, as `otspec.verification.rules.nested.sharing.Sharing` has it.
    """
    total = groups.size.sum(dim=1, keepdim=True)
    whole = labels.ends[:, -1:]
    bins = (labels.ends.double() * (total.double() / whole.double())).to(torch.int64)
    bins = torch.where(labels.ends == whole, total, torch.minimum(bins, total))
    line = _Line.of(bins, labels.density)
    rank, target, size, cut = _places(groups, line, weight, spread)

    worth = line.worth(size)
    measure = nearest(size.double() * worth)
    sums = _from_none(target)
    weightless = (sums == 0).sum(dim=1, keepdim=True) - 1  # places of p = 0 come first: they keep what they have
    run, rise = sums.float(), _from_none(measure).float()  # what is due to a place is a matter of acceptance alone
    begin, end = breakpoints(run, rise, weightless, cut)
    start, end = begin[:, :-1], end[:, 1:]
    due_run, due_rise = at(run, end) - at(run, start), at(rise, end) - at(rise, start)
    slope = torch.where(due_run > 0, due_rise / due_run, 0.0)
    due = torch.where(due_run > 0, nearest(slope.double() * target.double()), measure)

    wants, serves = _matched((due - measure).clamp(min=0), (measure - due).clamp(min=0), start, end)
    held = (measure + wants - serves).gather(1, rank.flatten(1)).view(rank.shape).sum(dim=2)
    factor = torch.where(groups.size > 0, held.double() / groups.size.double(), 0.0)
    return Sharing(torch.nn.functional.pad(factor, (0, 1)), rank, size, worth, running(wants), running(serves), bins)


def owned(sharing: Sharing, groups: Tensor) -> Tensor:
    """The labels that drafted tokens own, as running sums over the bins, shape (R, BINS).

    Parameters
    ----------
    sharing : Sharing
        Of the prefix of each.
    groups : Tensor of int64, shape (R,)
        The group of each.
    """
    wants, serves = amounts(sharing.wanted), amounts(sharing.served)
    parts = sharing.rank.shape[2]
    group = groups.clamp(max=sharing.rank.shape[1] - 1)[:, None, None].expand(-1, 1, parts)
    own = sharing.rank.gather(1, group)[:, 0]
    amount = torch.zeros_like(sharing.size)
    for part in range(parts):
        place = own[:, part : part + 1]
        receives = at(wants, place) > 0
        mine = torch.where(receives, sharing.wanted, sharing.served)
        low, high = before(mine, place), at(mine, place)
        theirs, each = torch.where(receives, sharing.served, sharing.wanted), torch.where(receives, serves, wants)
        moved = (torch.minimum(theirs, high) - torch.maximum(theirs - each, low)).clamp(min=0)
        gap = (sharing.worth - at(sharing.worth, place)).abs()
        swapped = torch.where((moved > 0) & (gap > 0), moved.double() / gap, 0.0)
        size = at(sharing.size, place)
        # But for rounding nothing is cut here: who receives is due no more than its size times the giver's worth, as
        # p/q ascends within a block, and who gives keeps at least its size times the receiver's.
        swapped = nearest(torch.minimum(swapped, torch.minimum(sharing.size, size).double()))
        amount = amount + swapped
        kept = (size - swapped.sum(dim=1, keepdim=True)).clamp(min=0)
        amount = amount.scatter_add(1, place, kept)
    sums, ends = running(amount), running(sharing.size)
    found = interpolate(sums, ends, sharing.bins)
    # A token that owns less than a unit shares all labels evenly: it is drafted with a chance of 2**-62.
    return torch.where(found[:, -1:] > 0, found, sharing.bins)


class _Line(NamedTuple):
    """The coordinate of prefixes: their labels laid end to end."""

    bins: Tensor
    """Shape (R, BINS): where each bin ends, in units."""
    wins: Tensor
    """Shape (R, BINS): running sum of the winner's chances."""
    density: Tensor
    """Shape (R, BINS): the winner's density in each, up to a factor."""
    scale: Tensor
    """Shape (R, 1): the factor that makes it 1 on average."""

    @classmethod
    def of(cls, bins: Tensor, density: Tensor) -> _Line:
        wins = chances(amounts(bins), density)
        return cls(bins, wins, density, bins[:, -1:].double() / wins[:, -1:].double())

    def reached(self, points: Tensor) -> Tensor:
        """The winner's chances up to some points, of `wins`."""
        return interpolate(self.wins, self.bins, points)

    def worth(self, size: Tensor) -> Tensor:
        """Mean density of the winner's label on places of these sizes, laid end to end."""
        ends = running(size)
        last = self.bins.shape[1] - 1
        lowest, place = (first_above(self.bins, points).clamp(max=last) for points in (ends - size, ends))
        # A place may end where a bin does.
        highest = torch.where(before(self.bins, place) >= ends, (place - 1).clamp(min=0), place)
        low, high = at(self.density, lowest), at(self.density, highest)
        rise = amounts(self.reached(ends)).double()
        # A place across bins lies between them; the quotient places it, as well as its digits allow.
        mean = torch.maximum(rise / size.clamp(min=1).double(), torch.minimum(low, high))
        mean = torch.minimum(mean, torch.maximum(low, high))
        return torch.where(lowest >= highest, low, mean) * self.scale


def _places(
    groups: Groups, line: _Line, weight: Tensor, spread: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Places of all parts of groups in ascending order: the ranks, p and q of each, and how many come first.

    Look-ahead splits every group into parts of equal q and different p.  Those of groups whose proposal exceeds
    weight * p come first, and stay among themselves.
    """
    rows, count = groups.size.shape
    if spread is None:
        ranks = torch.arange(count, device=weight.device)[None, :, None].expand(rows, -1, -1)
        return ranks, groups.target, groups.size, torch.zeros_like(ranks[:, :1, 0])
    won = line.reached(running(groups.size)).double() * line.scale
    height = (won - weight[:, None] * running(groups.target).double()) * (HEIGHTS / UNIT)
    key = height.clamp(min=0).to(torch.int64) * FIRST + (FIRST - 1 - torch.arange(count, device=weight.device))
    most = key.amax(dim=1, keepdim=True)
    cut = torch.where(most >= FIRST, FIRST - most % FIRST, 0)

    parts = spread.shape[0]
    part = torch.arange(parts, device=weight.device)
    target = groups.target[:, :, None].double() * spread / parts
    size = (groups.size[:, :, None] + part) // parts
    # Groups ascend up to rounding, and here without: so do all their first parts, all their second parts, ...
    ratio = torch.where(groups.size > 0, groups.target.double() / groups.size.double(), 0.0).cummax(dim=1).values
    # The bits of positive numbers ascend with them; one more in front puts the first groups before the others.
    key = (ratio[:, :, None] * spread).view(torch.int64) >> 1
    key = key + ((torch.arange(count, device=weight.device) >= cut).to(torch.int64) << 62)[:, :, None]
    order = key.flatten(1).argsort(dim=1, stable=True)
    places = torch.arange(count * parts, device=weight.device).expand_as(order)
    ranks = torch.empty_like(order).scatter(1, order, places)
    sorted_target = nearest(target).flatten(1).gather(1, order)
    return ranks.view(rows, count, parts), sorted_target, size.flatten(1).gather(1, order), cut * parts


def _matched(wishes: Tensor, surplus: Tensor, start: Tensor, end: Tensor) -> tuple[Tensor, Tensor]:
    """What recipients get and donors give: donors hand on to earlier recipients of their block, the first ones first.

    Under a majorant all is matched up to rounding; what is not stays where it is.
    """
    wished, offered = running(wishes), running(surplus)
    wished, offered = wished - before(wished, start), offered - before(offered, start)
    met = torch.minimum(wished, offered)
    index = torch.arange(wishes.shape[1], device=wishes.device).expand_as(wishes)
    earlier = torch.where(index > start, before(met, index), 0)
    serves = torch.where(surplus > 0, met - earlier, 0)
    served = running(serves)
    supply = at(served, end - 1) - before(served, start)
    wants = torch.minimum(wished, supply) - torch.minimum(wished - wishes, supply)
    return wants, serves


def _from_none(amounts: Tensor) -> Tensor:
    return torch.nn.functional.pad(running(amounts), (1, 0))
