"""Evidence that requests are not independent: texts that repeat, and ranks that go by those of a neighbour."""

from __future__ import annotations

import numpy as np

from otspec.auditing.engines.draws import Draws
from otspec.auditing.engines.evidence import bins_of
from otspec.auditing.evidence import STAKES, log_dependence, mean_of
from otspec.laws import IntArray

BINS = 8
"""Parts in which ranks of neighbours are compared."""

TELLING = 0.5
"""A text that repeats one of several says little where these are likely; only less likely ones are bet on."""

THETAS = np.array([0.6, 0.75, 0.9, 0.99])
"""Chances that it is the neighbour, or the text of the same number, that is equal, of the alternatives."""


class Neighbours:
    """Texts of one prompt and sampling whose law is known, batch by batch."""

    def __init__(self, length: int) -> None:
        self._wealth = np.zeros(STAKES.size)
        self._inside: IntArray = np.zeros((BINS, BINS), dtype=np.int64)
        self._across: IntArray = np.zeros((BINS, BINS), dtype=np.int64)
        self._last: Draws | None = None

    def add(self, draws: Draws) -> None:
        """Bet that texts repeat, and count ranks beside those of neighbours."""
        self._count(draws, draws, 1)
        if self._last is not None:
            self._count(self._last, draws, 0)
        self._bet(draws)
        self._last = draws

    def evidence(self) -> float:
        """Log of an e-value against independence."""
        uniform = np.full(BINS, 1 / BINS)
        dependence = [float(log_dependence(counts, uniform).sum()) for counts in (self._inside, self._across)]
        return mean_of(float(np.logaddexp.reduce(self._wealth) - np.log(STAKES.size)), *dependence)

    def _bet(self, draws: Draws) -> None:
        probabilities, known = np.where(draws.decided, draws.p, 1.0).prod(axis=1), draws.known
        before: dict[tuple[int, ...], float] = {}
        for row, text in enumerate(draws.texts):
            others = dict(before)
            if self._last is not None and row < len(self._last.texts) and self._last.known[row]:
                others[self._last.texts[row]] = float(np.where(self._last.decided[row], self._last.p[row], 1.0).prod())
            chance = sum(others.values())
            if 0 < chance <= TELLING:  # of texts that are known: whoever is not repeats none, and counts
                self._wealth += np.log1p(STAKES * (1 / chance - 1)) if text in others else np.log1p(-STAKES)
            if known[row]:
                before[text] = float(probabilities[row])

    def _count(self, earlier: Draws, later: Draws, lag: int) -> None:
        """Count pairs of bins, of texts `lag` apart in their batches."""
        size = min(len(earlier.texts), len(later.texts)) - lag
        if size <= 0:
            return
        both = earlier.decided[:size] & later.decided[lag : size + lag]
        before, after = bins_of(earlier.ranks[:size][both], BINS), bins_of(later.ranks[lag : size + lag][both], BINS)
        np.add.at(self._inside if lag else self._across, (before, after), 1)


class Coincidences:
    """Texts of one prompt and sampling whose law is not known: whether neighbours, or batches, are equal too often.

    Text 3i of a batch is compared with text 3i + 1, and with text 3i + 2 of the next batch.  If exactly one of them is
    equal to it, each is so by the toss of a fair coin.  So it is of texts 3i and 3i + 2 of the next batch.
    """

    def __init__(self) -> None:
        self._waiting: list[tuple[object, object]] = []
        self._coins: IntArray = np.zeros((2, 2), dtype=np.int64)
        """How often the neighbour, and the text of the same number, was equal and the other was not, and vice versa."""

    def add(self, texts: list[tuple[object, ...]]) -> None:
        """Compare a batch with the one before, and keep what the next is compared with."""
        for (text, beside), again, other in zip(self._waiting, texts[::3], texts[2::3], strict=False):
            for coins, one in zip(self._coins, (beside, again), strict=True):
                if (text == one) != (text == other):
                    coins[int(text == other)] += 1
        self._waiting = list(zip(texts[::3], texts[1::3], strict=False))

    def evidence(self) -> float:
        """Log of an e-value against independence."""
        logs = [wins * np.log(2 * THETAS) + losses * np.log(2 * (1 - THETAS)) for wins, losses in self._coins]
        return mean_of(*(float(np.logaddexp.reduce(one) - np.log(THETAS.size)) for one in logs))
