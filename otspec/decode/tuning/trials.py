"""Decoding a little by every family: acceptance by depth, and what whole steps take."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from typing import NamedTuple

import numpy as np
import torch

from otspec.decode.base.drafts import Drafts
from otspec.decode.base.metrics import Metrics
from otspec.decode.base.sampling import Sampling
from otspec.decode.drafters.drafter import Drafter, WrappedDrafter
from otspec.decode.models.tokens.matching import Matching
from otspec.decode.step.harness import Generation
from otspec.decode.step.strategy import DraftModels, Prepared, Strategy
from otspec.decode.tuning.costs import Trial
from otspec.errors import ProblemError
from otspec.laws import IntArray

Now = Callable[[], float]
"""A clock, in seconds."""

Decoding = Callable[..., Generation]
"""Called as ``decode(strategy, prompt, streamer=..., seed=...)``, a prompt being a list of tokens."""


def depths_of(most: int) -> list[int]:
    """The depths of the steps of a trial, in turn.

    All are up to the deepest, which half of the steps have, so that acceptance is known there too; what a step takes is
    measured at three.
    """
    return [most, max(most // 2, 1), most, 1]


class VaryingDrafter(WrappedDrafter):
    """A drafter whose depth is set anew at every step, and which records it.

    Parameters
    ----------
    drafter : Drafter
    depths : iterator of int
    drafted : list
        Gets the depth of every step; 0 where nothing is drafted.
    """

    def __init__(self, drafter: Drafter, depths: Iterator[int], drafted: list[int]) -> None:
        super().__init__(drafter)
        self._depths = depths
        self._drafted = drafted

    def depth(self, lengths: IntArray) -> int:
        """The next depth, if the drafter goes so far; called once a step, when it begins."""
        self._drafted.append(0)
        return min(super().depth(lengths), next(self._depths))

    def draft(self, texts: Sequence[Sequence[int]], depth: int) -> Drafts:
        """Draft."""
        self._drafted[-1] = depth
        return super().draft(texts, depth)


@dataclass(frozen=True, eq=False)
class Varying:
    """A strategy at depths that vary from step to step: one run then shows what all of them give and take."""

    strategy: Strategy
    depths: Iterator[int]
    drafted: list[int] = field(default_factory=list)

    @property
    def lossless(self) -> bool:
        """As without it: a depth that does not depend on the drafts changes no law."""
        return self.strategy.lossless

    @property
    def draft(self) -> DraftModels:
        """The draft model."""
        return self.strategy.draft

    @property
    def matching(self) -> Matching | None:
        """As without it."""
        return self.strategy.matching

    def prepare(self, vocab: int, sampling: Sampling, generator: torch.Generator) -> Prepared:
        """Make drafter and verifier for a run."""
        drafter, verifier = self.strategy.prepare(vocab, sampling, generator)
        return Prepared(VaryingDrafter(drafter, self.depths, self.drafted), verifier)


class TimedStep(NamedTuple):
    """A step of one text."""

    depth: int
    """Levels that were drafted."""
    seconds: float


class StepTimes:
    """A streamer that records when tokens came: of one text, at the end of every step."""

    def __init__(self, now: Now) -> None:
        self.now = now
        self.at: list[float] = []

    def put(self, value: torch.Tensor) -> None:
        """Record the time; at first the prompt comes."""
        self.at.append(self.now())

    def end(self) -> None:
        """Nothing to flush."""


class TrialRuns:
    """The sums over the runs of one family.

    Parameters
    ----------
    strategy : Strategy
        Of the family at its largest depth, or plain decoding.
    most : int
        The largest depth; 0 for plain decoding.
    now : Now
    """

    def __init__(self, strategy: Strategy, most: int, now: Now) -> None:
        self.strategy = strategy
        self.most = most
        self.now = now
        self.metrics = Metrics()
        self.steps: list[TimedStep] = []
        """All but the first of every text."""
        self._depths = cycle(depths_of(most))
        self._drafted: list[int] = []
        """Levels of every step."""
        self._starts: list[tuple[int, float]] = []
        """Of every run: the depth of its first step, and seconds less those of the steps after it."""

    def run(self, decode: Decoding, prompt: Sequence[int], seed: int) -> None:
        """Decode once."""
        times, drafted = StepTimes(self.now), list[int]()
        began = self.now()
        generation = decode(Varying(self.strategy, self._depths, drafted), prompt, streamer=times, seed=seed)
        spent = self.now() - began
        self.metrics += generation.metrics
        steps = np.diff(times.at[1:])
        self.steps += map(TimedStep, drafted[1:], steps.tolist())
        self._starts.append((drafted[0], spent - float(steps.sum())))
        self._drafted += drafted

    def trial(self) -> Trial:
        """Medians and means: what else the machine did is left out of the former, and nothing out of the latter."""
        found: defaultdict[int, list[float]] = defaultdict(list)
        for step in self.steps:
            found[step.depth].append(step.seconds)
        # A drafter of few tokens goes less deep than requested.
        wanted = {0} if self.most == 0 else set(depths_of(max(found, default=self.most)))
        timed = {depth: float(np.median(times)) for depth, times in found.items()}
        steps = {depth: timed[depth] for depth in timed.keys() & wanted} or timed
        if not steps:
            raise ProblemError("all texts ended within one step; pass other prompts to tune with, or more new tokens")
        starts = [spent - steps[depth] for depth, spent in self._starts if depth in steps]
        drafted = [sum(depth > level for depth in self._drafted) for level in range(self.most)]
        drafted = drafted[: drafted.index(0)] if 0 in drafted else drafted
        accepted = [*self.metrics.accepted, *[0] * len(drafted)]  # copies may be shorter than requested
        return Trial(
            steps,
            max(float(np.median(starts)), 0.0) if starts else 0.0,
            tuple(got / steps for got, steps in zip(accepted, drafted, strict=False)),
        )


def trials(
    runs: Collection[TrialRuns],
    decode: Decoding,
    prompts: Sequence[Sequence[int]],
    seed: int,
    seconds: float,
    now: Now,
    report: Callable[[], None] = lambda: None,
) -> int:
    """Run every trial on one prompt, then on the next, while there is time; how many prompts there were.

    Every trial runs once at least, and as often as the others.
    """
    began, rounds = now(), 0
    while rounds == 0 or now() - began < seconds:
        for one in runs:
            one.run(decode, prompts[rounds % len(prompts)], seed + rounds)
            report()
        rounds += 1
    return rounds
