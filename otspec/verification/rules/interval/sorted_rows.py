"""The `interval` rule (docs/interval.md) on rows of laws, by a sort, on any device.

It puts out the tokens of `compiled.verify_one`.  Only what the drafts of a row decide is computed: the block of the
draft that is highest in the order, its exchanges, and the segment of the majorant that a residual draw falls into.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from otspec.kernels.interval.exchange import LEVEL
from otspec.verification.rules.interval.exchanges import Exchanges, exchange, highest, show
from otspec.verification.tensors.fixed_point import amounts, at, before, first_above, from_zero, running, to_units
from otspec.verification.tensors.majorant import Curve, segment
from otspec.verification.tensors.measures import Counts, mean_density, power


class Output(NamedTuple):
    """What is put out in each of B rows."""

    tokens: Tensor
    """Shape (B,), int64."""
    accepted: Tensor
    """Shape (B,), int64: index of the accepted draft, or -1."""
    share: Tensor
    """Shape (B,), float64: how far through the token's part of the residual law a draw from it lies, in [0, 1)."""


def verify_by_sorting(p: Tensor, q: Tensor, drafts: Tensor, uniforms: Tensor, alive: Tensor | None = None) -> Output:
    """Output token of each row, and which draft it is.

    Parameters
    ----------
    p, q : Tensor of float64, shape (B, V)
        Laws, divided by their totals.
    drafts : Tensor of int64, shape (B, n)
        Tokens with q > 0.
    uniforms : Tensor of float64, shape (B, n + 1, 3)
        As `otspec.verification.reference.interval.verify` uses them.
    alive : Tensor of bool, shape (B, n), optional
        Which of the drafts there are; the others are any tokens, and are not read.  By default all.  In a row that has
        none, the output may name a draft as accepted.
    """
    n: int | Counts = drafts.shape[1]
    if alive is not None:
        n = Counts(alive.sum(dim=1, keepdim=True).clamp(min=1), drafts.shape[1])
    ratio = torch.where(q > 0, p / q, torch.nan)  # NaN is sorted to the end
    order = ratio.sort(dim=1, stable=True).indices
    target, size = p.gather(1, order), q.gather(1, order)
    index = torch.arange(order.shape[1], device=p.device).expand_as(order)
    ranks = at(torch.empty_like(order).scatter_(1, order, index), drafts)

    held, masses = running(to_units(size)), running(to_units(target))
    fill, run = from_zero(held), from_zero(masses)
    curve = Curve(run, fill, power(fill, n), n)
    weightless = (masses == 0).sum(dim=1, keepdim=True)
    if alive is not None:
        ranks = torch.where(alive, ranks, -1)
    topmost = ranks.max(dim=1, keepdim=True).values
    lost = (curve.rise - run).max(dim=1, keepdim=True)
    top, missing = lost.indices, lost.values
    position = uniforms[:, -1, 1:2] * missing

    def goes_right(vertex: Tensor) -> Tensor:
        """The first search is for the block of the highest draft, the second for that of the residual draw."""
        lies_below = at(run, vertex[:, 1:]) - at(curve.rise, vertex[:, 1:]) + missing <= position
        return torch.cat((vertex[:, :1] <= topmost, lies_below), dim=1)

    end = torch.full_like(top, order.shape[1])
    left, right = segment(curve, torch.cat((weightless, top), 1), torch.cat((end, end), 1), goes_right)
    slope = curve.slope(left, right)

    # Tokens of p = 0 come first, and have no exchanges: their g is the measure of their place.
    weighty = topmost >= weightless
    start, past = torch.where(weighty, left[:, :1], 0), torch.where(weighty, right[:, :1], weightless)
    inside = weighty & (index >= start) & (index < past)
    density = mean_density(fill[:, :-1], fill[:, 1:], n)
    exchanges = _exchange_in_block(target, size, density, slope[:, :1], inside)
    places = torch.where(ranks >= start, show(exchanges, ranks.clamp(min=0), uniforms[:, :-1, :2]), -1)
    picked = highest(places, uniforms[:, :-1, 2])

    rank, token = at(ranks, picked).clamp(min=0), at(drafts, picked)
    proposal = torch.where(weighty, slope[:, :1] * at(target, rank), at(size * density, rank))
    accepted = uniforms[:, -1, :1] * proposal < at(target, rank)
    mass = _residual(curve, masses, left[:, 1:], right[:, 1:], slope[:, 1:], position, missing, uniforms[:, -1, 1:2])
    drawn = first_above(masses, mass).clamp(max=order.shape[1] - 1)
    low = before(masses, drawn)
    return Output(
        torch.where(accepted, token, at(order, drawn))[:, 0],
        torch.where(accepted, picked, -1)[:, 0],
        ((mass - low) / (at(masses, drawn) - low))[:, 0],
    )


def _exchange_in_block(target: Tensor, size: Tensor, density: Tensor, slope: Tensor, inside: Tensor) -> Exchanges:
    """The exchanges of one block of each row: recipients' g exceeds their measure, donors' measures exceed their g."""
    ranks = torch.arange(target.shape[1], device=target.device)
    goal, measure = slope * target, size * density
    donor = inside & (goal < (1.0 - LEVEL) * measure)
    excess = torch.where(inside, to_units(measure - goal), 0)
    wants = torch.where(donor, 0, (-excess).clamp(min=0))
    offered = torch.where(donor, excess.clamp(min=0), 0)
    # Rounding can leave a surplus that no earlier recipient wants: the running maximum absorbs it.
    idle = running(offered - wants).cummax(dim=1).values.clamp(min=0)
    serves = offered - amounts(idle)

    follows = torch.nn.functional.pad(donor[:, :-1], (1, 0))
    first = torch.where(donor & ~follows, ranks, -1).cummax(dim=1).values
    past = torch.where(donor, target.shape[1], ranks).flip(1).cummin(dim=1).values.flip(1)
    first, past = torch.where(donor, first, ranks), torch.where(donor, past, ranks + 1)
    threshold = torch.where(donor, goal / size, 0.0)
    return exchange(to_units(size), density, threshold, first, past, wants, serves)


def _residual(
    curve: Curve,
    masses: Tensor,
    left: Tensor,
    right: Tensor,
    slope: Tensor,
    position: Tensor,
    missing: Tensor,
    uniform: Tensor,
) -> Tensor:
    """Where on the running sum of p a draw from (p - g)+ lies, in units, shape (B, 1); in a block g is slope * p."""
    run = at(curve.run, left)
    inside = torch.where(slope < 1, (position - missing + at(curve.rise, left) - run) / (1.0 - slope), 0.0)
    total = masses[:, -1:]
    low, high = before(masses, left), before(masses, right)
    drawn = ((run + inside) * total).to(torch.int64)
    drawn = torch.minimum(torch.maximum(drawn, low), high - 1)
    # Rejected, and nothing is left of p, by rounding: a draw from p itself.
    drawn = torch.where(missing > 0, drawn, (uniform * total).to(torch.int64))
    return torch.minimum(drawn, total - 1)
