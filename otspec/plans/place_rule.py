"""The pick rule of `interval`, by the places and exchanges of `otspec.kernels.interval`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from otspec.errors import ProblemError
from otspec.kernels.interval.picking import pick_draft, pick_weights
from otspec.kernels.interval.places import Places
from otspec.kernels.quadrature import quadrature
from otspec.laws import FloatArray, IntArray
from otspec.schemes import IID

MOST_WEIGHED = 2000
"""Drafts whose weights are integrated: the nodes of the quadrature take a second."""


@dataclass(frozen=True, eq=False)
class PlaceRule:
    """The pick rule of `interval`: the draft that shows the largest point wins."""

    scheme: IID
    places: Places

    @classmethod
    def of(cls, scheme: IID, places: Places, proposal: FloatArray) -> PlaceRule:
        """The rule, given its law g by token, shape (V,)."""
        rule = cls(scheme, places)
        vars(rule)["proposal"] = proposal  # where `cached_property` looks first
        return rule

    @cached_property
    def proposal(self) -> FloatArray:
        """g, shape (V,): the law of the picked token when the drafts come from the scheme."""
        law = np.zeros(self.scheme.vocab)
        law[self.places.order] = self.places.proposal
        return law

    @cached_property
    def _rank(self) -> IntArray:
        rank = np.full(self.scheme.vocab, -1)
        rank[self.places.order] = np.arange(self.places.order.size)
        return rank

    def _ranks(self, drafts: IntArray) -> IntArray:
        ranks = self._rank[drafts]
        if ranks.min() < 0:
            raise ProblemError(f"drafts hold {drafts[ranks.argmin()]}, whose draft probability is 0")
        return ranks

    def weights(self, drafts: IntArray) -> FloatArray:
        """Probability of picking each draft, shape (n,) to (n,), by integrals that are exact up to rounding.

        Raises
        ------
        ProblemError
            If a draft has probability 0, or there are more than `MOST_WEIGHED`.
        """
        if self.scheme.n > MOST_WEIGHED:
            raise ProblemError(
                f"n is {self.scheme.n:,}, and the law of the pick an integral of polynomials of that degree, taken "
                f"for up to {MOST_WEIGHED:,} drafts; draw the output with the plan's sample()"
            )
        return pick_weights(self.places, self._ranks(drafts), *quadrature(self.scheme.n))

    def pick(self, drafts: IntArray, rng: np.random.Generator) -> int:
        """Index of the picked one of the drafts, shape (n,), by drawing a point for each.

        Raises
        ------
        ProblemError
            If a draft has probability 0.
        """
        return int(pick_draft(self.places, self._ranks(drafts), rng.random((self.scheme.n, 3))))
