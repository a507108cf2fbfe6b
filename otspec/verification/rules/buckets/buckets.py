"""Verification without a sort: tokens of nearly equal p/q share a bucket, and the drafts of a bucket are picked alike.

The leading bits of p/q name the bucket.  In a bucket, the law g of the picked token is q times one factor, g/q of the
bucket, which is known exactly whatever the bucket holds: the rule is lossless for any buckets.  They cost acceptance
where g/q of a bucket lies between the p/q of its tokens: at most a quarter of the bucket's width, times its q.

Between buckets, exchanges as in docs/interval.md give the picked bucket its law g.  There, g is p times the
slope of the least concave majorant.  Here the majorant is known only at its vertices for a few slopes, a `LADDER`;
between two of them g aims at p times one slope of the ladder, the one next to 1, and what cannot be had stays where it
is.  That attains the same acceptance, since g >= p still holds up to the vertex of slope 1, and g <= p beyond; and it
needs no majorant.  Were 1 the only slope, g would be p in many buckets, and acceptance be lost in all of them.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from otspec.verification.rules.interval.exchanges import Exchanges, exchange, highest, show
from otspec.verification.tensors.fixed_point import (
    UNIT,
    amounts,
    at,
    before,
    draw,
    first_above,
    from_zero,
    running,
    to_units,
)
from otspec.verification.tensors.majorant import Curve
from otspec.verification.tensors.measures import Counts, mean_density, power

BITS = 12
"""Leading bits of the fraction of p/q: 4096 buckets for p/q in [0, 1), and as many for every octave above."""
MANTISSA = 52


GROUP = 64
"""Rows that are worked on together: some thirty numbers for every bucket of each, and as many again for the ladder."""
OCTAVES, FINEST = 16, 10
LADDER = (
    *(2.0**j for j in range(OCTAVES, 0, -1)),
    *(1.0 + 2.0**-j for j in range(1, FINEST + 1)),
    1.0,
    *(1.0 - 2.0**-j for j in range(FINEST, 0, -1)),
)
"""Slopes whose vertices cut the buckets into segments, descending."""
LEVEL_STEP = LADDER.index(1.0)
AIMS = (*LADDER[: LEVEL_STEP + 1], *LADDER[LEVEL_STEP:])
"""The slope that each segment aims at: that of its end up to the vertex of slope 1, that of its start beyond."""


def count(n: int) -> int:
    """Number of buckets for n drafts: from p/q = n on, all tokens share one, since g/q is at most n everywhere."""
    return (1 + (n - 1).bit_length() << BITS) + 1


def bucket_of(p: Tensor, q: Tensor, n: int) -> Tensor:
    """The bucket of each token, int64, ascending with p/q; `count(n)` where q = 0."""
    ratio = torch.where(q > 0, p / q, 0.0)
    low = (ratio.clamp(max=1.0) * 2.0**BITS).to(torch.int64)
    high = (ratio.view(torch.int64) >> (MANTISSA - BITS)) - (1022 << BITS)  # 1.0 follows on the last below
    bucket = torch.where(ratio < 1, low, high).clamp(max=count(n) - 1)
    return torch.where(q > 0, bucket, count(n))


class Buckets(NamedTuple):
    """The solved problem of each row's buckets."""

    factor: Tensor
    """Shape (B, buckets + 1): g/q of each bucket; 0 for the tokens that cannot be drafted."""
    exchanges: Exchanges
    """One for each donor."""


def slopes_of(steps: Tensor) -> Tensor:
    """`LADDER` at some steps, made on the device: to bring a table there would wait for it."""
    one = OCTAVES + FINEST
    exponent = torch.where(steps < OCTAVES, OCTAVES - steps, torch.where(steps < one, OCTAVES - 1 - steps, 0))
    exponent = torch.where(steps > one, steps - (one + FINEST + 1), exponent)
    two = (exponent + 1023 << MANTISSA).view(torch.float64)
    near = torch.where(steps < one, 1.0 + two, torch.where(steps == one, 1.0, 1.0 - two))
    return torch.where(steps < OCTAVES, two, near)


def histogram(p: Tensor, q: Tensor, bucket: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """Masses of p and of q in each bucket, in units; a token that can be drafted has at least one unit of q."""
    target = torch.zeros((p.shape[0], count(n) + 1), dtype=torch.int64, device=p.device)
    size = torch.zeros_like(target)
    target.scatter_add_(1, bucket, to_units(p))
    size.scatter_add_(1, bucket, torch.where(q > 0, to_units(q).clamp(min=1), 0))
    return target, size


def solve_buckets(target: Tensor, size: Tensor, n: int | Counts) -> Buckets:
    """The law of the picked bucket, and the exchanges that give it, from the masses of the buckets in units."""
    fill, run = from_zero(running(size)), from_zero(running(target))
    share = size.double() / size.sum(dim=1, keepdim=True).double()
    density = mean_density(fill[:, :-1], fill[:, 1:], n)
    measure = to_units(share * density)

    ladder = slopes_of(torch.arange(len(LADDER), device=target.device))
    vertices = Curve(run, fill, power(fill, n), n).support(ladder.expand(target.shape[0], -1)).cummax(dim=1).values
    ranks = torch.arange(target.shape[1], device=target.device).expand_as(target)
    segment = first_above(vertices, ranks)
    ends = torch.nn.functional.pad(torch.nn.functional.pad(vertices, (1, 0)), (0, 1), value=target.shape[1])
    start, last = at(ends, segment), at(ends, segment + 1) - 1
    parts = torch.arange(len(AIMS), device=target.device)
    aims = slopes_of(torch.where(parts > LEVEL_STEP, parts - 1, parts))
    portion = target.double() / target.sum(dim=1, keepdim=True).double()
    goal = aims[segment] * portion

    excess = measure - to_units(goal)
    # Up to the vertex of slope 1 there is surplus that no earlier recipient wants; beyond, wishes that no donor meets.
    idle = torch.where(segment <= LEVEL_STEP, running(excess), 0).cummax(dim=1).values.clamp(min=0)
    serves = excess.clamp(min=0) - amounts(idle)
    served, wishes = running(serves), (-excess).clamp(min=0)
    wished = running(wishes) - before(running(wishes), start)
    limit = at(served, last) - before(served, start)
    wants = torch.minimum(wished, limit) - torch.minimum(wished - wishes, limit)

    factor = torch.where(size > 0, (measure + wants - serves).double() / UNIT / share, 0.0)
    threshold = torch.where(size > 0, goal / share, 0.0)
    return Buckets(factor, exchange(to_units(share), density, threshold, ranks, ranks + 1, wants, serves))


def verify_by_buckets(
    p: Tensor, q: Tensor, drafts: Tensor, uniforms: Tensor, alive: Tensor | None = None, most: int | None = None
) -> tuple[Tensor, Tensor]:
    """Output token of each row, and which draft it is, or -1; shapes (B,).

    Parameters
    ----------
    p, q : Tensor of float64, shape (B, V)
        Laws, divided by their totals.
    drafts : Tensor of int64, shape (B, n)
        Tokens with q > 0.
    uniforms : Tensor of float64, shape (B, n + 1, 3)
        Row m is for draft m: which exchange it enters, if any; what it draws there; where in its place the point lies.
        The first two of the last row accept the picked draft, or draw from the residual law, in the order of tokens.
    alive : Tensor of bool, shape (B, n), optional
        Which of the drafts there are; the others are any tokens, and are not read.  By default all.  In a row that has
        none, the output may name a draft as accepted.
    most : int, optional
        What there are buckets for, n or more; by default n.
    """
    most = drafts.shape[1] if most is None else most
    if p.shape[0] > GROUP:
        parts = [slice(start, start + GROUP) for start in range(0, p.shape[0], GROUP)]
        here = [None if alive is None else alive[part] for part in parts]
        found = [
            verify_by_buckets(p[part], q[part], drafts[part], uniforms[part], these, most)
            for part, these in zip(parts, here, strict=True)
        ]
        return torch.cat([tokens for tokens, _ in found]), torch.cat([accepted for _, accepted in found])
    n: int | Counts = drafts.shape[1]
    if alive is not None:
        n = Counts(alive.sum(dim=1, keepdim=True).clamp(min=1), drafts.shape[1])
    bucket = bucket_of(p, q, most)
    solved = solve_buckets(*histogram(p, q, bucket, most), n)
    places = show(solved.exchanges, at(bucket, drafts), uniforms[:, :-1, :2])
    if alive is not None:
        places = torch.where(alive, places, -1)
    picked = highest(places, uniforms[:, :-1, 2])
    token = at(drafts, picked)
    proposal = at(solved.factor, at(bucket, token)) * at(q, token)
    accepted = uniforms[:, -1, :1] * proposal < at(p, token)

    rest = to_units((p - solved.factor.gather(1, bucket) * q).clamp(min=0))
    sums = running(rest)
    # Rejected, and nothing is left of p, by rounding: a draw from p itself.
    sums = torch.where(sums[:, -1:] > 0, sums, running(to_units(p)))
    drawn = draw(sums, uniforms[:, -1, 1:2])
    return torch.where(accepted, token, drawn)[:, 0], torch.where(accepted, picked, -1)[:, 0]


def acceptance(p: Tensor, q: Tensor, n: int) -> Tensor:
    """P(the output is a draft) of the rule by buckets for laws of shape (B, V); shape (B,)."""
    p, q = p.double(), q.double()
    bucket = bucket_of(p, q, n)
    factor = solve_buckets(*histogram(p, q, bucket, n), n).factor
    return torch.minimum(p, factor.gather(1, bucket) * q).sum(dim=1)
