"""Running estimates of acceptance by shape and depth, for each text of a batch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby

import numpy as np

from otspec.decode.pacing.menu import Branching, beginnings, prefixes
from otspec.laws import FloatArray
from otspec.paths.shape import Shape

SLOWER = 8
"""How many times longer than a text's own past that of all texts is remembered."""
PRIOR = 30.0
"""For how many tries counts what is expected of a branching, or a depth, that was not drafted yet."""


class Acceptance:
    """P(one more token of a path is accepted | those before it are), by the branching down to it, for each text.

    It is made of what all texts show of each branching, and of how often each text refuses where they all do once.

    At each depth, what all branchings show there is put together as refusals of one path, K siblings being worth so
    many chances, and to it `PRIOR` tries are added that fail as often as at the depth before, at depth 1 as the given
    chance says.  To what each branching shows itself as many are added that fail as these let expect.  So what was not
    drafted yet, or not for long, goes by what is like it.

    A text's refusals are those of its past steps over those that all texts let expect, as though there had been
    `weight` more of both.

    Parameters
    ----------
    texts : int
    menu : sequence of Shape
    chance : float
        What is expected before anything is known.
    weight : float
        Of a text.
    memory : float
        In steps: what was k steps ago counts (1 - 1/memory)^k, and of all texts' past, `SLOWER` times as long.
    """

    def __init__(self, texts: int, menu: Sequence[Shape], chance: float, weight: float, memory: float) -> None:
        self.branchings = prefixes(menu)
        self._beginnings = beginnings(self.branchings)
        self._place = {branching: place for place, branching in enumerate(self.branchings)}
        worth = [_chances_of(branching) for branching in self.branchings]
        self._levels = [
            [(place, worth[place]) for place in level]
            for _, level in groupby(range(len(worth)), key=lambda place: len(self.branchings[place]))
        ]
        """Places of the branchings of each depth, and what their siblings are worth."""
        self._tried = [0.0] * len(worth)
        self._accepted = [0.0] * len(worth)
        self._refused = [0.0] * texts
        self._expected = [0.0] * texts
        self._refusals: list[float] | None = None
        """Since the last step."""
        self._chance = chance
        self._weight = weight
        self._kept = 1.0 - 1.0 / memory
        self._kept_of_all = 1.0 - 1.0 / (SLOWER * memory)

    def note(self, shape: Shape, offered: Sequence[int], accepted: Sequence[int]) -> None:
        """Take a step: how many tokens of this shape's paths were drafted in each text, and how many accepted.

        A step without drafts is one too: what is known gets older.
        """
        refusals = self._refusals_of_all()
        places = [self._place[shape.branching[:depth]] for depth in range(1, max(offered, default=0) + 1)]
        self._tried = [self._kept_of_all * tried for tried in self._tried]
        self._accepted = [self._kept_of_all * accepted for accepted in self._accepted]
        for text, (asked, got) in enumerate(zip(offered, accepted, strict=True)):
            tried = places[: min(got + 1, asked)]
            for place in tried:
                self._tried[place] += 1.0
            for place in places[:got]:
                self._accepted[place] += 1.0
            expected = sum(refusals[place] for place in tried)
            self._expected[text] = self._kept * self._expected[text] + expected
            self._refused[text] = self._kept * self._refused[text] + (got < asked)
        self._refusals = None

    def keep(self, rows: Sequence[int]) -> None:
        """Go on with these texts."""
        self._refused, self._expected = ([each[row] for row in rows] for each in (self._refused, self._expected))

    def reach(self) -> FloatArray:
        """In how many texts each branching is expected to be accepted, shape (branchings,)."""
        often = np.array(self._refused) + self._weight
        often /= np.array(self._expected) + self._weight
        own = np.ones((len(often), len(self.branchings) + 1))
        own[:, :-1] -= np.minimum(often[:, None] * self._refusals_of_all(), 1.0)
        found: FloatArray = own[:, self._beginnings].prod(axis=-1).sum(axis=0)
        return found

    def _refusals_of_all(self) -> list[float]:
        """How often all texts refuse, by branching: some dozens of numbers, too few for arrays to be worth it."""
        if self._refusals is not None:
            return self._refusals
        found, tried = [0.0] * len(self._tried), self._tried
        refused = [asked - got for asked, got in zip(tried, self._accepted, strict=True)]
        single = 1.0 - self._chance
        for level in self._levels:
            alike, times = PRIOR * single, PRIOR
            for place, worth in level:
                if tried[place] > 0:
                    alike += tried[place] * (refused[place] / tried[place]) ** (1.0 / worth)
                    times += tried[place]
            single = alike / times
            for place, worth in level:
                found[place] = (PRIOR * single**worth + refused[place]) / (PRIOR + tried[place])
        self._refusals = found
        return found


def _chances_of(branching: Branching) -> float:
    """How many independent chances the paths of a level are worth: the root of K where K part, and less behind it.

    Siblings are drawn from one law and mostly fail alike: on the shipped pair one draft is accepted with .62, and one
    of 2, 3 and 4 with .75, .81 and .84, which are 1.4, 1.7 and 1.9 chances.
    """
    worth = 1.0
    for children in branching:
        worth = math.sqrt(worth * children)
    return worth
