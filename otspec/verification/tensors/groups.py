"""Tokens of nearly equal p/q in groups, which share their labels evenly: some hundred groups of 10^5 tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from otspec.verification.tensors.fixed_point import UNIT, to_units

SORTED = 500
"""Vocabularies up to this are sorted by p/q; larger ones are put into buckets, which are fewer."""
OCTAVES = ((-8, 1), (-3, 3), (-1, 5), (1, 3), (3, 1))
"""Buckets by the leading binary digits of p/q: from what power of two on, and how many digits of the fraction.  The
nearer p/q is to 1, the more they matter: of laws that nearly agree, all tokens are there."""
REACH = 8
"""Ratios p/q from 2**REACH on are in one bucket, as are those below the first octave."""
DIGITS, BIAS = 23, 127
"""Of a float32: the digits of its fraction, and the exponent of 1.  Single precision is enough for ratios."""
RARE = 2.0**-20
"""Tokens of less than this under both laws are classed by whether p < q alone, and are with those of p/q = 3/4 and
3/2.  They are most tokens of a large vocabulary, and have little of its mass: kernels add them up without a trip to
memory for each."""
LESS, MORE = ((2 * exponent + 1) << (DIGITS - 1) for exponent in (BIAS - 1, BIAS))
"""The digits of 3/4 and 3/2."""
STEP = 2.0**-52
"""What rare tokens are rounded to before they are added up: they are less than 2**32 steps.  A quarter of a million of
them are off by 2**-35 in the worst case, and by 2**-45 as a rule."""


class Groups(NamedTuple):
    """Masses of k groups of tokens of nearly equal p/q, in ascending order, of R pairs of laws.

    Tokens that cannot be drafted would be one more at the end: kernels may have a column for them, which is cut off.
    """

    target: Tensor
    """Shape (R, k), int64: p of the groups, in units, before it is divided by its total."""
    size: Tensor
    """Shape (R, k), int64: q of the groups likewise; 0 where there is no such token."""


class Piece(NamedTuple):
    """Some octaves: buckets are what leading digits exceed the lowest ones by, from 0 up to a number of them."""

    shift: int
    """The shift of p/q that puts these digits last."""
    lowest: int
    buckets: int


def pieces_of(octaves: Sequence[tuple[int, int]], reach: int) -> tuple[Piece, ...]:
    """`OCTAVES` for a sum over all of them; the first has one bucket more, in place of the ratios below."""
    found: list[Piece] = []
    for (low, digits), end in zip(octaves, (*(low for low, _ in octaves[1:]), reach), strict=True):
        below = 0 if found else 1
        found.append(Piece(DIGITS - digits, ((BIAS + low) << digits) - below, ((end - low) << digits) + below))
    return tuple(found)


PIECES = pieces_of(OCTAVES, REACH)


def group_count(vocab: int) -> int:
    """k."""
    return vocab if vocab <= SORTED else sum(piece.buckets for piece in PIECES) + 1


def group(p: Tensor, q: Tensor) -> Tensor:
    """The group of each token, shape (R, V), from laws of shape (R, V); `group_count(V)` where q = 0."""
    vocab = p.shape[1]
    if vocab > SORTED:
        return bucket(p, q)
    order = torch.where(q > 0, p.double() / q.double(), torch.inf).sort(dim=1, stable=True).indices
    ranks = torch.arange(vocab, device=p.device).expand_as(order)
    return torch.where(q > 0, torch.empty_like(order).scatter(1, order, ranks), vocab)


def bucket(p: Tensor, q: Tensor) -> Tensor:
    """The group of some tokens of a large vocabulary, of any shape."""
    mine, theirs = p.float(), q.float()
    digits = torch.where(q > 0, mine / theirs, torch.inf).view(torch.int32)
    digits = torch.where(rare(p, q), torch.where(mine < theirs, LESS, MORE), digits)
    found = torch.zeros_like(digits, dtype=torch.int64)
    for shift, lowest, buckets in PIECES:
        found += ((digits >> shift) - lowest).clamp(0, buckets)
    return torch.where(q > 0, found, group_count(SORTED + 1))


def rare(p: Tensor, q: Tensor) -> Tensor:
    """Whether tokens are hardly ever drawn by either model."""
    return (p.float() < RARE) & (q.float() < RARE)


def group_rows(p: Tensor, q: Tensor, of: Tensor) -> Groups:
    """The groups of laws of shape (R, V), whose tokens are in these: laws as they came, whose totals may drift."""
    count = group_count(p.shape[1])
    small = rare(p, q)
    length = torch.where(small, _units(q, small), _units(q, small) | 1)
    target = torch.zeros((p.shape[0], count + 1), dtype=torch.int64, device=p.device)
    size = torch.zeros_like(target).scatter_add(1, of, torch.where(q > 0, length, 0))
    target = target.scatter_add(1, of, _units(p, small))
    return Groups(target[:, :-1], size[:, :-1])


def _units(law: Tensor, small: Tensor) -> Tensor:
    """Probabilities in units of 2**-62; rare ones that were no doubles only up to steps, in 32 bits, and quickly."""
    if law.dtype == torch.float64:
        return to_units(law)
    mine = law.float()
    few = (torch.where(small, mine, 0) / STEP + 0.5).to(torch.int64) * int(STEP * UNIT)
    return torch.where(small, few, (mine * UNIT).to(torch.int64))
