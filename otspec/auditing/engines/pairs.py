"""Evidence from two samples: texts without drafts against texts with drafts, where no law is known.

Text number i without drafts makes a pair with text number i with drafts.  If both have one law, then given the two
texts of a pair a fair coin decides which is which.  A bet on the coin, at odds that only earlier pairs decide, is a
test martingale [ramdas2023game].
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from otspec.laws import FloatArray

SMOOTHINGS = 4.0 ** np.arange(1, 6)
"""How many texts the law of both kinds together counts for in the law of one kind; a bettor each."""

OVER = None
"""What follows the last token of a text that is shorter than others."""


class Pairs:
    """Bets on pairs of texts of one prompt and sampling.

    Parameters
    ----------
    cuts : sequence of int
        Texts are compared by so many of their first tokens; each has a bettor of its own.
    """

    def __init__(self, cuts: Sequence[int]) -> None:
        self.cuts = tuple(cuts)
        self._wealth: FloatArray = np.zeros((len(self.cuts), SMOOTHINGS.size))
        self._seen: dict[tuple[object, ...], list[int]] = {}
        self._children: dict[tuple[object, ...], int] = {}

    def add(self, plain: Sequence[object], drafted: Sequence[object]) -> None:
        """Bet on a pair, which of its texts is the drafted one; then learn from it."""
        first, second = (self._closed(text) for text in (plain, drafted))
        odds = self._log_odds(first) - self._log_odds(second)
        self._wealth += np.log(2.0) - np.logaddexp(0.0, -odds)
        for kind, text in enumerate((first, second)):
            for end in range(len(text) + 1):
                counts = self._seen.setdefault(text[:end], [0, 0])
                if end and sum(counts) == 0:
                    self._children[text[: end - 1]] = self._children.get(text[: end - 1], 0) + 1
                counts[kind] += 1

    def evidence(self) -> FloatArray:
        """Log e-values by cut, shape (cuts,)."""
        found: FloatArray = np.logaddexp.reduce(self._wealth, axis=1) - np.log(SMOOTHINGS.size)
        return found

    def _closed(self, text: Sequence[object]) -> tuple[object, ...]:
        longest = self.cuts[-1]
        return (*text[:longest], *(OVER,) * (longest - len(text)))

    def _log_odds(self, text: tuple[object, ...]) -> FloatArray:
        """Log of the chance of a beginning without drafts over that with drafts, shape (cuts, SMOOTHINGS)."""
        steps = np.zeros((len(text), SMOOTHINGS.size))
        for place in range(len(text)):
            node, child = self._seen.get(text[:place], (0, 0)), self._seen.get(text[: place + 1], (0, 0))
            if not any(node):
                break
            both = (sum(child) + 0.5) / (sum(node) + 0.5 * (1 + self._children.get(text[:place], 0)))
            plain, drafted = ((child[kind] + SMOOTHINGS * both) / (node[kind] + SMOOTHINGS) for kind in (0, 1))
            steps[place] = np.log(plain) - np.log(drafted)
        return np.cumsum(steps, axis=0)[[cut - 1 for cut in self.cuts]]
