"""The fastest candidates and plain decoding in turn on the same prompts: the measured gain."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from otspec.decode.step.in_turn import Now
from otspec.decode.tuning.candidates import PLAIN, Candidate

LEVEL = 0.95
FEWEST = 6
"""Prompts at least: of three, an interval of several candidates is wider than what drafts gain."""

Timed = Callable[[int], Sequence[float]]
"""Decodes a prompt, by its number, by all ways in turn, and returns how many seconds a token took each."""


@dataclass(frozen=True)
class SpeedUp:
    """A factor and its confidence interval, from pairs of times: infinitely wide where there is one pair."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, slow: Sequence[float], fast: Sequence[float], comparisons: int = 1) -> SpeedUp:
        """The geometric mean of the ratios of paired times, with an interval by Student's law of their logarithms.

        Parameters
        ----------
        slow, fast : sequence of float, both of one length
            Seconds, a pair for each prompt.
        comparisons : int
            How many such intervals are to hold together with probability `LEVEL`, by Bonferroni's inequality: the best
            of several is not the best by luck.
        """
        logs = np.log(slow) - np.log(fast)
        mean, pairs = float(logs.mean()), logs.size
        if pairs < 2:
            return cls(math.exp(mean), 0.0, math.inf)
        reach = float(stdtrit(pairs - 1, 1 - (1 - LEVEL) / (2 * comparisons)) * logs.std(ddof=1) / math.sqrt(pairs))
        return cls(*(math.exp(mean + shift) for shift in (0.0, -reach, reach)))

    def __str__(self) -> str:
        """Two digits: 1.38 [1.30, 1.46]."""
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"


@dataclass(frozen=True)
class Raced:
    """A candidate, how many seconds its tokens took on each prompt, and how much faster than plain decoding it was."""

    candidate: Candidate
    per_token: tuple[float, ...]
    speed_up: SpeedUp


def race(candidates: Sequence[Candidate], timed: Timed, first: int, seconds: float, now: Now) -> list[Raced]:
    """Time plain decoding and candidates on one prompt after the other, while there is time.

    Parameters
    ----------
    candidates : sequence of Candidate
    timed : Timed
        Of plain decoding and the candidates.
    first : int
        Number of the first prompt.
    seconds : float
    now : Now
    """
    began, rounds = now(), list[Sequence[float]]()
    while len(rounds) < FEWEST or now() - began < seconds:
        rounds.append(timed(first + len(rounds)))
    plain, *others = times = list(zip(*rounds, strict=True))
    return [
        Raced(way, own, SpeedUp.of(plain, own, max(len(others), 1)))
        for way, own in zip([PLAIN, *candidates], times, strict=True)
    ]


def winner(raced: Sequence[Raced]) -> Raced:
    """The fastest of those that are faster than plain decoding beyond doubt; plain decoding if none is."""
    faster = [one for one in raced if one.speed_up.low > 1]
    return max(faster, key=lambda one: one.speed_up.value, default=next(one for one in raced if one.candidate == PLAIN))
