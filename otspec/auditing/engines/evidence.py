"""Evidence from texts whose law is known: by position, node by node and by ranks.

The e-values are those of `otspec.auditing.evidence`: look as often as you like.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import cast

import numpy as np
from scipy.special import gammaln, xlogy

from otspec.auditing.engines.draws import Draws
from otspec.auditing.engines.engine import Beginnings
from otspec.auditing.evidence import CONCENTRATIONS, log_evidence, mean_of
from otspec.laws import FloatArray, IntArray

BINS = 16
"""Equal parts of [0, 1] in which ranks are counted."""


class Position:
    """The tokens at one position of the texts of one prompt and sampling.

    At every node, the prefix before the token, the tokens are independent draws from the law after it.  Nodes bet on
    different draws, so that their e-values multiply; all nodes take the same alternative, as a biased rule is off by
    about as much everywhere.
    """

    def __init__(self) -> None:
        self._pairs: dict[tuple[Hashable, int], int] = {}
        self._nodes: dict[Hashable, int] = {}
        self._counts: list[int] = []
        self._p: list[float] = []
        self._visits: list[int] = []
        self._support: list[int] = []
        self.ranks: IntArray = np.zeros(BINS, dtype=np.int64)
        """How many ranks lie in each bin, shape (BINS,)."""
        self._ratios: FloatArray | None = None

    def add(self, prefix: Hashable, token: int, p: float, support: int) -> None:
        """Count a token of probability p after a prefix, where the law has `support` tokens."""
        self._ratios = None
        node = self._nodes.setdefault(prefix, len(self._visits))
        if node == len(self._visits):
            self._visits.append(0)
            self._support.append(support)
        self._visits[node] += 1
        pair = self._pairs.setdefault((prefix, token), len(self._counts))
        if pair == len(self._counts):
            self._counts.append(0)
            self._p.append(p)
        self._counts[pair] += 1

    def by_alternative(self) -> FloatArray:
        """Log likelihood ratios of the counts after each prefix, by alternative, shape (1 + CONCENTRATIONS.size,).

        As `otspec.auditing.evidence.log_evidence` has them, summed over nodes; what was not drawn has a factor of 1.
        """
        if self._ratios is None:
            self._ratios = self._likelihood_ratios()
        return self._ratios

    def evidence(self) -> float:
        """Log of an e-value against "the tokens have the law"."""
        return mean_of(mean_of(*self.by_alternative().tolist()), of_ranks(self.ranks))

    def _likelihood_ratios(self) -> FloatArray:
        counts, p = np.array(self._counts, dtype=np.float64), np.array(self._p)
        visits, support = np.array(self._visits, dtype=np.float64), np.array(self._support, dtype=np.float64)
        if (p == 0).any():
            return np.full(1 + CONCENTRATIONS.size, np.inf)
        by_law = CONCENTRATIONS[:, None]
        logs = _likelihood(counts, by_law * p) - _likelihood(visits, by_law * np.ones_like(visits))
        flat = _likelihood(counts, np.full((1, counts.size), 0.5)) - _likelihood(visits, support[None] / 2)
        return np.concatenate((flat, logs)) - xlogy(counts, p).sum()


def together(positions: Sequence[Position]) -> float:
    """Log of an e-value of all these positions, of whatever prompts and samplings.

    A quarter each of four: their average, which finds one that is off; their product; the product in which all take
    the same alternative; and the ranks of all.
    """
    if not positions:
        return 0.0
    each = np.array([position.evidence() for position in positions])
    alike = np.sum([position.by_alternative() for position in positions], axis=0)
    ranks = np.sum([position.ranks for position in positions], axis=0)
    return mean_of(mean_of(*each.tolist()), float(each.sum()), mean_of(*alike.tolist()), of_ranks(ranks))


def of_ranks(counts: IntArray) -> float:
    """Log of an e-value against "ranks are uniform", from how many lie in each bin, shape (BINS,)."""
    return log_evidence(counts, np.full(BINS, 1 / BINS))


class Positions:
    """All positions of the texts of one prompt and sampling."""

    def __init__(self, length: int) -> None:
        self.each = [Position() for _ in range(length)]
        self._beginnings = Beginnings()

    def add(self, draws: Draws) -> None:
        """Count a batch; tokens whose law hangs on rounding are left out."""
        prefixes = [self._beginnings.along(text) for text in draws.texts]
        for place, position in enumerate(self.each):
            rows = np.flatnonzero(draws.decided[:, place])
            for row in rows:
                p, support = float(draws.p[row, place]), int(draws.support[row, place])
                position.add(prefixes[row][place], int(draws.tokens[row, place]), p, support)
            position.ranks += np.bincount(bins_of(draws.ranks[rows, place]), minlength=BINS)


def bins_of(ranks: FloatArray, bins: int = BINS) -> IntArray:
    """The number of the bin of each rank, shape as given."""
    return np.minimum((ranks * bins).astype(np.int64), bins - 1)


def _likelihood(counts: FloatArray, prior: FloatArray) -> FloatArray:
    """Log of rising factorials, prior (prior + 1) ... (prior + count - 1), summed over the last axis.

    Of shapes (m,) and (alternatives, m); what comes out has shape (alternatives,).
    """
    return cast(FloatArray, (gammaln(prior + counts) - gammaln(prior)).sum(axis=-1))
