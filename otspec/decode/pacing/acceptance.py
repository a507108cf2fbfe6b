"""Running estimates of acceptance by depth, for each text of a batch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from otspec.laws import FloatArray
from otspec.verification.trees.shape import Shape

SLOWER = 8
"""How many times longer than a text's own past that of all texts is remembered."""
PRIOR = 30.0
"""For how many tries counts what is expected of a depth that was not drafted yet."""


class Acceptance:
    """P(one more token of a path is accepted | those before it are), by depth, for each text.

    It is made of what all texts show at each depth, and of how often each text refuses where they all do once.

    To what was seen at a depth, `PRIOR` tries are added that fail as often as those at the depth before, at depth 1 as
    the given chance says; K siblings are worth so many independent chances.  So what was not drafted yet, or not for
    long, goes by what is like it.

    A text's refusals are those of its past steps over those that all texts let expect, as though there had been
    `weight` more of both.

    Parameters
    ----------
    texts : int
    shape : Shape
        Of what is drafted at most.
    chance : float
        What is expected before anything is known.
    weight : float
        Of a text.
    memory : float
        In steps: what was k steps ago counts (1 - 1/memory)^k, and of all texts' past, `SLOWER` times as long.
    """

    def __init__(self, texts: int, shape: Shape, chance: float, weight: float, memory: float) -> None:
        self._worth = list(accumulate(shape.branching, _chances_of, initial=1.0))[1:]
        """Of the siblings of each depth."""
        self._tried = [0.0] * shape.depth
        self._accepted = [0.0] * shape.depth
        self._refused = [0.0] * texts
        self._expected = [0.0] * texts
        self._refusals: list[float] | None = None
        """Since the last step."""
        self._chance = chance
        self._weight = weight
        self._kept = 1.0 - 1.0 / memory
        self._kept_of_all = 1.0 - 1.0 / (SLOWER * memory)

    def note(self, offered: Sequence[int], accepted: Sequence[int]) -> None:
        """Take a step.

        A step without drafts is one too: what is known gets older.

        Parameters
        ----------
        offered, accepted : sequence of int, length `texts`
            How long the longest path was that each text got, and how many of its tokens were accepted.
        """
        refusals = self._refusals_of_all()
        self._tried = [self._kept_of_all * tried for tried in self._tried]
        self._accepted = [self._kept_of_all * accepted for accepted in self._accepted]
        for text, (asked, got) in enumerate(zip(offered, accepted, strict=True)):
            tried = min(got + 1, asked)
            for level in range(tried):
                self._tried[level] += 1.0
            for level in range(got):
                self._accepted[level] += 1.0
            self._expected[text] = self._kept * self._expected[text] + sum(refusals[:tried])
            self._refused[text] = self._kept * self._refused[text] + (got < asked)
        self._refusals = None

    def keep(self, rows: Sequence[int]) -> None:
        """Go on with these texts."""
        self._refused, self._expected = ([each[row] for row in rows] for each in (self._refused, self._expected))

    def reach(self) -> FloatArray:
        """In how many texts a path is expected to be accepted to each depth or further, shape (L,)."""
        often = np.array(self._refused) + self._weight
        often /= np.array(self._expected) + self._weight
        goes_on = 1.0 - np.minimum(often[:, None] * self._refusals_of_all(), 1.0)
        found: FloatArray = goes_on.cumprod(axis=1).sum(axis=0)
        return found

    def _refusals_of_all(self) -> list[float]:
        """How often all texts refuse, by depth: a dozen numbers, too few for arrays to be worth it."""
        if self._refusals is not None:
            return self._refusals
        found, single = [], 1.0 - self._chance
        for worth, tried, accepted in zip(self._worth, self._tried, self._accepted, strict=True):
            refused = tried - accepted
            alike, times = PRIOR * single, PRIOR
            if tried > 0:
                alike += tried * (refused / tried) ** (1.0 / worth)
                times += tried
            single = alike / times
            found.append((PRIOR * single**worth + refused) / (PRIOR + tried))
        self._refusals = found
        return found


def _chances_of(worth: float, children: int) -> float:
    """How many independent chances the paths of a level are worth: the root of K where K part, and less behind it.

    Siblings are drawn from one law and mostly fail alike: on the shipped pair one draft is accepted with .62, and one
    of 2, 3 and 4 with .75, .81 and .84, which are 1.4, 1.7 and 1.9 chances.
    """
    return math.sqrt(worth * children)
