"""Running estimates of acceptance by depth, for each text of a batch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from otspec.laws import FloatArray

SLOWER = 8
"""How many times longer than a text's own past that of all texts is remembered."""


class Acceptance:
    """P(token d of a path is accepted | those before it are), for each text, from its own past steps.

    Steps count less the longer ago they are, by a factor of 1 - 1/memory a step.  To what is counted so, `weight` tries
    are added that succeed as those of all texts do, which fade `SLOWER` times as slowly: what a text has shown of late
    is little, and most of all of deep tokens.  To those of all texts at depth d as many are added, which succeed as at
    depth d - 1, and at depth 1 with the given chance: depths at which nothing was drafted yet, or not for long, go by
    the one before.

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
        self._all_tried: FloatArray = np.zeros(depth)
        self._all_accepted: FloatArray = np.zeros(depth)
        self._chance = chance
        self._weight = weight
        self._kept = 1.0 - 1.0 / memory
        self._kept_of_all = 1.0 - 1.0 / (SLOWER * memory)

    def note(self, asked: int, accepted: Sequence[int]) -> None:
        """Take a step in which `asked` tokens were drafted of each path, and so many accepted in each text.

        A step without drafts is one too: what is known gets older.
        """
        level = np.arange(self._tried.shape[1])
        got = np.asarray(accepted)[:, None]
        tried, went_on = (level <= got) & (level < asked), level < got
        self._tried = self._kept * self._tried + tried
        self._accepted = self._kept * self._accepted + went_on
        self._all_tried = self._kept_of_all * self._all_tried + tried.sum(axis=0)
        self._all_accepted = self._kept_of_all * self._all_accepted + went_on.sum(axis=0)

    def keep(self, rows: Sequence[int]) -> None:
        """Go on with these texts."""
        self._tried, self._accepted = self._tried[list(rows)], self._accepted[list(rows)]

    def tokens(self) -> FloatArray:
        """Tokens that a step is expected to give to all texts together, by its depth from 0 on, shape (depth + 1,)."""
        chance, chances = self._chance, []
        for tried, accepted in zip(self._all_tried.tolist(), self._all_accepted.tolist(), strict=True):
            chance = (accepted + self._weight * chance) / (tried + self._weight)
            chances.append(chance)
        own = (self._accepted + self._weight * np.array(chances)) / (self._tried + self._weight)
        reach = own.cumprod(axis=1).sum(axis=0)
        return np.concatenate(([0.0], reach.cumsum())) + len(own)
