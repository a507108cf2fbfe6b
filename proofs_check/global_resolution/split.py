"""Section 6 of [thomas2025global] by enumeration: H*, the outer residuals and the two systems, formula by formula.

Whatever the paper sums over tuples of drafts depends on a tuple by the set of its tokens only.  Sets are bit masks
here, and `mass[A]` is the probability that the drafts form the set A.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from otspec.laws import BoolArray, FloatArray, IntArray
from otspec.proofs_check.global_resolution.transport import Transport
from otspec.proofs_check.oracles import formed, psi_of, token_sets

TIE = 1e-12
"""Values of psi as close as this to the least one tie with it."""

EXACT = 1e-11
"""Rounding of the probability of a tuple."""


@lru_cache
def holds(vocab: int) -> BoolArray:
    """Whether each set holds each token, shape (2**V, V): `token_sets`, cached."""
    return token_sets(vocab) == 1


@lru_cache
def subsets(vocab: int) -> BoolArray:
    """Whether one set lies in another: shape (2**V, 2**V)."""
    masks = np.arange(1 << vocab)
    return (masks[:, None] & ~masks) == 0


@lru_cache
def _tuples(vocab: int, n: int) -> IntArray:
    """All tuples of n drafts."""
    return np.indices((vocab,) * n).reshape(n, -1).T


def iid_masses(q: FloatArray, n: int) -> FloatArray:
    """P(n i.i.d. drafts form A), shape (2**V,), tuple by tuple; q need not sum to 1."""
    drafts = _tuples(q.size, n)
    return formed(drafts, q[drafts].prod(axis=1), q.size)


def once_exact(error: float, margin: float) -> float:
    """A margin, where something that has to be exact is so, to rounding; else a contradiction, however large."""
    return margin if error <= EXACT else -1.0 - error


def mask_of(tokens: BoolArray) -> int:
    """The bit mask of a set."""
    return int((1 << np.flatnonzero(tokens)).sum())


def minimiser(psi: FloatArray, largest: bool = False) -> int:
    """The smallest minimiser of psi, or the largest: minimisers of a submodular function are a lattice."""
    ties = np.flatnonzero(psi <= psi.min() + TIE)
    return int(ties[-1] if largest else ties[0])


def rising(p: FloatArray, q: FloatArray) -> IntArray:
    """Tokens by increasing q/p, those that are never drafted first."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.argsort(np.where(q > 0, q / p, -1.0), kind="stable")


def least_above(psi: FloatArray, low: int) -> float:
    """Minimum of psi over the sets that hold a given one."""
    masks = np.arange(psi.size)
    return float(psi[low & ~masks == 0].min())


def outer_demands(
    p: FloatArray,
    psi: FloatArray,
    inside: BoolArray,
    order: IntArray,
    least: Callable[[FloatArray, int], float] = least_above,
) -> FloatArray:
    """p_v of eq. (10) with the tokens outside H* in a given order, 0 for those in H*; shape (V,)."""
    demands = np.zeros(p.size)
    below = psi.size - 1  # H_i, the tokens from v_i on and H*
    for v in order[~inside[order]]:
        above = below & ~(1 << int(v))
        demands[v] = p[v] + least(psi, above) - least(psi, below)
        below = above
    return demands


@dataclass(frozen=True, eq=False)
class Split:
    """A problem cut along H*."""

    p: FloatArray
    """Shape (V,): target law."""
    psi: float
    """psi(H*)."""
    inside: BoolArray
    """Shape (V,): H*."""
    outer: Transport
    """The system of tuples with a draft outside H*."""
    inner: Transport
    """The system of tuples inside H*."""

    @property
    def residual(self) -> FloatArray:
        """p(i) - p_i outside H*, 0 inside: p without rounding below 0."""
        return np.where(self.inside, 0.0, np.maximum(self.p - self.outer.demands, 0.0))

    @property
    def conditional(self) -> FloatArray:
        """Law of the output when a tuple in H* is rejected, by eq. (18); 0 where nothing is left of p: 0/0."""
        total = self.residual.sum()
        return self.residual / total if total > 0 else self.residual

    def row_of(self, drafts: IntArray) -> int:
        """Where `columns` has a set that is served as a tuple of drafts is: an outer one by its tokens outside H*."""
        formed = np.isin(np.arange(self.p.size), drafts)
        if self.inside[drafts].all():
            return len(self.outer.edges) + int((self.inner.edges == formed).all(axis=1).argmax())
        return int((self.outer.edges == (formed & ~self.inside)).all(axis=1).argmax())

    def systems(self) -> tuple[Transport, Transport]:
        """The outer and the inner one."""
        return self.outer, self.inner

    def truncated(self, kept: BoolArray) -> tuple[Transport, Transport]:
        """Their truncations to the kept tokens: Phi_T and Theta_T are what these take as value."""
        return self.outer.truncated(kept & ~self.inside), self.inner.truncated(kept & self.inside)

    def leaks(self, q: FloatArray, n: int, kept: BoolArray) -> tuple[float, float]:
        """epsilon_T and gamma_T, eq. (13) and (16), of the kept tokens on either side of H*."""
        outer = 1.0 - q[self.inside | kept].sum() ** n
        return float(outer), float(q[self.inside].sum() ** n - q[self.inside & kept].sum() ** n)

    def columns(self, alpha: FloatArray) -> tuple[FloatArray, FloatArray]:
        """C of eq. (18), shape (m, V), and the supplies that its rows should sum to, outer sets first."""
        served = self.inner.served(alpha)
        unspent = self.inner.supplies - served.sum(axis=1)
        inner = served + unspent[:, None] * self.conditional
        columns = np.concatenate((self.outer.served(alpha), inner))
        return columns, np.concatenate((self.outer.supplies, self.inner.supplies))

    def acceptance(self, alpha: FloatArray) -> float:
        """Probability that the output is a draft [thomas2025global, eq. (134)]."""
        return float(self.outer.served(alpha).sum() + self.inner.served(alpha).sum())

    def acceptance_error(self, alpha: FloatArray) -> float:
        """Distance of that to the optimum."""
        return abs(self.acceptance(alpha) - (1.0 + self.psi))

    def error(self, alpha: FloatArray) -> float:
        """L1 distance of the output law to p."""
        return float(np.abs(self.columns(alpha)[0].sum(axis=0) - self.p).sum())


def split(p: FloatArray, mass: FloatArray, order: IntArray, largest: bool = False) -> Split:
    """Cut a problem along H*, with the tokens in a given order in eq. (10)."""
    psi = psi_of(p, mass)
    best = minimiser(psi, largest)
    inside = holds(p.size)[best]
    held = (np.arange(mass.size) & ~best) == 0
    sets = holds(p.size)
    outer, inner = np.flatnonzero(~held & (mass > 0)), np.flatnonzero(held & (mass > 0))
    return Split(
        p,
        float(psi[best]),
        inside,
        Transport(sets[outer] & ~inside, mass[outer], outer_demands(p, psi, inside, order), slack=False),
        Transport(sets[inner], mass[inner], np.where(inside, p, 0.0), slack=True),
    )


def iid_split(p: FloatArray, q: FloatArray, n: int, largest: bool = False) -> Split:
    """Of i.i.d. drafts, in the order of Algorithm 1."""
    return split(p, iid_masses(q, n), rising(p, q), largest)


def table_split(p: FloatArray, drafts: IntArray, law: FloatArray) -> Split:
    """Of drafts of any law, in the order of the tokens."""
    return split(p, formed(drafts, law, p.size), np.arange(p.size))
