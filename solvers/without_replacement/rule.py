"""Picking a draft by release probabilities, and by a mixture of such a rule and priority orders."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from otspec.errors import ProblemError
from otspec.laws import FloatArray, IntArray
from otspec.plans import PickRule


@dataclass(frozen=True, eq=False)
class ReleaseRule:
    """Only the drafts of the first block count; each is released or stays, by chance.

    The first released draft in the order is picked; if all stay, one of them is drawn.
    """

    order: IntArray
    """Shape (k,): the tokens that can be drafted, in order of priority."""
    starts: IntArray
    """Shape (blocks,): where in it they start."""
    released: FloatArray
    """Shape (k,): release probabilities, in that order."""
    law: FloatArray
    """Shape (k,): law of the pick, in that order, summed up from the release probabilities."""
    vocab: int

    @cached_property
    def proposal(self) -> FloatArray:
        """g, shape (V,): the law of the picked token when the drafts come from the scheme."""
        proposal = np.zeros(self.vocab)
        proposal[self.order] = self.law
        return proposal

    @cached_property
    def _rank(self) -> IntArray:
        rank = np.full(self.vocab, -1)
        rank[self.order] = np.arange(self.order.size)
        return rank

    def weights(self, drafts: IntArray) -> FloatArray:
        """Probability of picking each draft, shape (n,) to (n,).

        Raises
        ------
        ProblemError
            If a draft has probability 0, or appears twice.
        """
        ranks = self._rank[drafts]
        if ranks.min() < 0:
            raise ProblemError(f"drafts hold {drafts[ranks.argmin()]}, whose draft probability is 0")
        if np.unique(ranks).size < ranks.size:
            raise ProblemError(f"drafts {drafts.tolist()} hold a token twice; without replacement all differ")
        blocks = np.searchsorted(self.starts, ranks, side="right")
        members = np.flatnonzero(blocks == blocks.min())
        members = members[np.argsort(ranks[members])]
        released = self.released[ranks[members]]
        all_stay = np.cumprod(np.append(1.0, 1.0 - released))
        weights = np.zeros(drafts.size)
        weights[members] = released * all_stay[:-1] + all_stay[-1] / members.size
        return weights


@dataclass(frozen=True, eq=False)
class Mixture:
    """Draw one of two rules, and pick by it."""

    rules: tuple[PickRule, PickRule]
    share: float
    """Probability of the first."""

    @cached_property
    def proposal(self) -> FloatArray:
        """g, shape (V,): the law of the picked token when the drafts come from the scheme."""
        first, second = self.rules
        return self.share * first.proposal + (1.0 - self.share) * second.proposal

    def weights(self, drafts: IntArray) -> FloatArray:
        """Probability of picking each draft, shape (n,) to (n,).

        Raises
        ------
        ProblemError
            If a draft has probability 0.
        """
        first, second = self.rules
        return self.share * first.weights(drafts) + (1.0 - self.share) * second.weights(drafts)
