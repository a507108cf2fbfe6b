"""Exchanges of all rows at once: who contributes what, which exchange a draft enters, and the place it draws there.

Recipients are served first come, first served.  So what recipients want and what donors serve are two ascending lists
of running sums on one axis, and every question is a search in one of them: a recipient meets the donors whose intervals
on that axis overlap with its own.  Ranks that neither receive nor give have empty intervals.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from otspec.verification.tensors.fixed_point import at, before, first_above, first_reaching, running


class Exchanges(NamedTuple):
    """The exchanges of B rows of k places.  One goes by the rank of its first donor, and aims at the threshold there.

    Sums include the entry that they stand at; contributions and wishes are in units.
    """

    size: Tensor
    """Shape (B, k), int64: places, in units."""
    density: Tensor
    """Shape (B, k), float64: mean of n u**(n - 1) over each place."""
    threshold: Tensor
    """Shape (B, k), float64: of the exchange that begins there, the mean density of all contributions."""
    first: Tensor
    """Shape (B, k), int64: of a donor, the first donor of its exchange."""
    past: Tensor
    """Shape (B, k), int64: of a donor, one past the last donor of its exchange."""
    wanted: Tensor
    """Shape (B, k), int64: running sum of what recipients want."""
    served: Tensor
    """Shape (B, k), int64: running sum of what donors serve."""
    contributed: Tensor
    """Shape (B, k), int64: running sum of the contributions of donors."""
    alone: Tensor
    """Shape (B, k), int64: running sum of the contributions of recipients that one exchange serves whole."""
    heads: Tensor
    """Shape (B, k), int64: running sum, over exchanges, of the contribution of the oldest recipient."""


def exchange(
    size: Tensor, density: Tensor, threshold: Tensor, first: Tensor, past: Tensor, wants: Tensor, serves: Tensor
) -> Exchanges:
    """The exchanges by what every recipient wants and every donor serves, in units, and by where exchanges begin.

    Parameters
    ----------
    size, density, threshold, first, past : Tensor, shape (B, k)
        As `Exchanges` has them.
    wants, serves : Tensor of int64, shape (B, k)
        Amounts, 0 of those who neither receive nor give.
    """
    wanted, served = running(wants), running(serves)
    last = size.shape[1] - 1
    earliest = first_above(served, wanted - wants).clamp(max=last)
    latest = first_reaching(served, wanted)
    home = at(first, earliest)
    whole = (wants > 0) & (latest <= last) & (home == at(first, latest.clamp(max=last)))
    alone = torch.where(whole, _contribution(wants, at(threshold, home) - density, size), 0)
    contributed = _contribution(serves, density - at(threshold, first), size)

    ranks = torch.arange(last + 1, device=size.device)
    low, high = served - serves, at(served, past - 1)
    oldest = first_above(wanted, low).clamp(max=last)
    amount = torch.minimum(at(wanted, oldest), high) - low
    heads = _contribution(amount, threshold - at(density, oldest), at(size, oldest))
    heads = torch.where((serves > 0) & (first == ranks), heads, 0)
    return Exchanges(
        size, density, threshold, first, past, wanted, served, running(contributed), running(alone), running(heads)
    )


def show(exchanges: Exchanges, ranks: Tensor, uniforms: Tensor) -> Tensor:
    """The rank of the place that each draft's point lies in: its own, or one that it draws in an exchange.

    Parameters
    ----------
    exchanges : Exchanges
    ranks : Tensor of int64, shape (B, n)
        Ranks of the drafts.
    uniforms : Tensor, shape (B, n, 2)
        Numbers in [0, 1): which exchange, if any; what is drawn there.
    """
    number, enters = _enter(exchanges, ranks, uniforms[..., 0])
    return torch.where(enters, _draw(exchanges, number, uniforms[..., 1]), ranks)


def highest(places: Tensor, fractions: Tensor) -> Tensor:
    """The draft with the largest point, shape (B, 1): a place and a fraction, shape (B, n); places below 0 are out."""
    top = places.max(dim=1, keepdim=True).values
    return torch.where(places == top, fractions, -1.0).argmax(dim=1, keepdim=True)


def _contribution(amount: Tensor, gap: Tensor, size: Tensor) -> Tensor:
    """What has to be put in so that an amount changes hands, no more than there is, and nothing across a gap <= 0."""
    part = torch.where((gap > 0) & (amount > 0), amount / gap, 0.0)
    return torch.minimum(torch.minimum(part, size.double()).round().to(torch.int64), size)


def _enter(of: Exchanges, ranks: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor]:
    """Which exchange each draft enters, and whether it enters any; shape (B, n)."""
    last = of.size.shape[1] - 1
    size, density = at(of.size, ranks), at(of.density, ranks)
    position = (uniform * size).to(torch.int64)
    contributed = at(of.contributed, ranks) - before(of.contributed, ranks)
    low, high = before(of.wanted, ranks), at(of.wanted, ranks)
    # A recipient's first exchange serves it as one of several.
    home = at(of.first, first_above(of.served, low).clamp(max=last))
    amount = torch.minimum(at(of.served, at(of.past, home) - 1), high) - low
    put_in = torch.where(high > low, _contribution(amount, at(of.threshold, home) - density, size), 0)
    # It is the oldest recipient of all that follow.
    total = of.served[:, -1:]
    final = at(of.first, first_reaching(of.served, torch.minimum(high, total)).clamp(max=last))
    later = first_above(of.heads, at(of.heads, home) + position - put_in)  # past the last rank: it stays out
    receives, gives = high > low, contributed > 0
    enters_later = receives & (position >= put_in) & (later > home) & (later <= final) & (low < total)
    number = torch.where(gives, at(of.first, ranks), torch.where(enters_later, later.clamp(max=last), home))
    return number, (position < torch.where(gives, contributed, put_in)) | enters_later


def _draw(of: Exchanges, number: Tensor, uniform: Tensor) -> Tensor:
    """The rank that is drawn in each exchange, shape (B, n): by what was put in, recipients first, ascending."""
    last = of.size.shape[1] - 1
    past = at(of.past, number)
    low, high = before(of.served, number), at(of.served, past - 1)
    oldest = first_above(of.wanted, low).clamp(max=last)
    newest = first_reaching(of.wanted, high).clamp(max=last)
    several = newest > oldest
    head = at(of.heads, number) - before(of.heads, number)
    between = torch.where(several, before(of.alone, newest) - at(of.alone, oldest), 0)
    gap = at(of.threshold, number) - at(of.density, newest)
    tail = torch.where(several, _contribution(high - before(of.wanted, newest), gap, at(of.size, newest)), 0)
    contributed_before = before(of.contributed, number)
    donors = at(of.contributed, past - 1) - contributed_before

    held = head + between + tail + donors
    position = torch.minimum((uniform * held).to(torch.int64), held - 1)
    inside = first_above(of.alone, at(of.alone, oldest) + position - head).clamp(max=last)
    beyond = position - (head + between + tail)
    donor = first_above(of.contributed, contributed_before + beyond.clamp(min=0)).clamp(max=last)
    drawn = torch.where(beyond >= 0, donor, newest)
    drawn = torch.where(position < head + between, inside, drawn)
    return torch.where(position < head, oldest, drawn)
