"""Running estimates of acceptance by depth, for each text of a batch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from otspec.laws import FloatArray


class Acceptance:
    """P(token d of a path is accepted | those before it are), for each text, from its own past steps.

    Steps count less the longer ago they are, by a factor of 1 - 1/memory a step.  To what was counted at depth d,
    `weight` tries are added that succeed as those at depth d - 1 are estimated to, and at depth 1 with the given
    chance: depths at which nothing was drafted yet, or not for long, go by the one before.

    Parameters
    ----------
    texts : int
    depth : int
        The largest.
    chance : float
        What is expected before anything is known.
    weight : float
    memory : float
        In steps.
    """

    def __init__(self, texts: int, depth: int, chance: float, weight: float, memory: float) -> None:
        self._tried: FloatArray = np.zeros((texts, depth))
        self._accepted: FloatArray = np.zeros((texts, depth))
        self._chance = chance
        self._weight = weight
        self._kept = 1.0 - 1.0 / memory

    def note(self, asked: int, accepted: Sequence[int]) -> None:
        """Take a step in which `asked` tokens were drafted of each path, and so many accepted in each text.

        A step without drafts is one too: what is known gets older.
        """
        level = np.arange(self._tried.shape[1])
        got = np.asarray(accepted)[:, None]
        self._tried = self._kept * self._tried + ((level <= got) & (level < asked))
        self._accepted = self._kept * self._accepted + (level < got)

    def keep(self, rows: Sequence[int]) -> None:
        """Go on with these texts."""
        self._tried, self._accepted = self._tried[list(rows)], self._accepted[list(rows)]

    def tokens(self) -> FloatArray:
        """Tokens that a step is expected to give to all texts together, by its depth from 0 on, shape (depth + 1,)."""
        texts, depth = self._tried.shape
        total: FloatArray = np.full(depth + 1, float(texts))
        chance: FloatArray = np.full(texts, self._chance)
        reach = np.ones(texts)
        for level in range(depth):
            tries = self._tried[:, level] + self._weight
            chance = (self._accepted[:, level] + self._weight * chance) / tries
            reach = reach * chance
            total[level + 1 :] += reach.sum()
        return total
