"""Running estimates of acceptance by shape and depth, for each text of a batch."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from otspec.decode.pacing.menu import Branching, prefixes
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
        self._known = prefixes(menu)
        self._place = {branching: place for place, branching in enumerate(self._known)}
        self._worth: FloatArray = np.array([_chances_of(branching) for branching in self._known])
        self._ends = np.cumsum(np.bincount([len(branching) for branching in self._known])[1:]).tolist()
        """Where the branchings of each depth end."""
        self._tried: FloatArray = np.zeros(len(self._known))
        self._accepted: FloatArray = np.zeros(len(self._known))
        self._refused: FloatArray = np.zeros(texts)
        self._expected: FloatArray = np.zeros(texts)
        self._known_chances: FloatArray | None = None
        """Since the last step."""
        self._chance = chance
        self._weight = weight
        self._kept = 1.0 - 1.0 / memory
        self._kept_of_all = 1.0 - 1.0 / (SLOWER * memory)

    def note(self, shape: Shape, offered: Sequence[int], accepted: Sequence[int]) -> None:
        """Take a step: how many tokens of this shape's paths were drafted in each text, and how many accepted.

        A step without drafts is one too: what is known gets older.
        """
        refusal = 1.0 - self._chances()
        places = [self._place[shape.branching[:depth]] for depth in range(1, max(offered, default=0) + 1)]
        self._refused *= self._kept
        self._expected *= self._kept
        self._tried *= self._kept_of_all
        self._accepted *= self._kept_of_all
        for text, (asked, got) in enumerate(zip(offered, accepted, strict=True)):
            tried = places[: min(got + 1, asked)]
            self._tried[tried] += 1.0
            self._accepted[places[:got]] += 1.0
            self._expected[text] += refusal[tried].sum()
            self._refused[text] += got < asked
        self._known_chances = None

    def keep(self, rows: Sequence[int]) -> None:
        """Go on with these texts."""
        self._refused, self._expected = self._refused[list(rows)], self._expected[list(rows)]

    def tokens(self, shapes: Sequence[Shape]) -> FloatArray:
        """Tokens that a step of each shape is expected to give to all texts together."""
        often = (self._refused + self._weight) / (self._expected + self._weight)
        own = 1.0 - np.minimum(often * (1.0 - self._chances())[:, None], 1.0)
        reach: dict[Branching, FloatArray] = {(): np.ones(len(often))}
        found = []
        for shape in shapes:
            given = float(len(often))
            for depth in range(1, shape.depth + 1):
                branching = shape.branching[:depth]
                if branching not in reach:
                    reach[branching] = reach[branching[:-1]] * own[self._place[branching]]
                given += float(reach[branching].sum())
            found.append(given)
        return np.array(found)

    def _chances(self) -> FloatArray:
        """Those of all texts, by branching."""
        if self._known_chances is not None:
            return self._known_chances
        found: FloatArray = np.empty(len(self._known))
        refused = self._tried - self._accepted
        single, first = 1.0 - self._chance, 0
        for last in self._ends:
            level, tried = slice(first, last), self._tried[first:last]
            worth, shown = self._worth[level], refused[level]
            alike = np.divide(shown, tried, out=np.zeros(last - first), where=tried > 0) ** (1.0 / worth)
            single = (PRIOR * single + float(tried @ alike)) / (PRIOR + float(tried.sum()))
            found[level] = 1.0 - (PRIOR * single**worth + shown) / (PRIOR + tried)
            first = last
        self._known_chances = found
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
