"""Decoding a little by every family: acceptance by depth, and what whole steps take."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np
import torch

from otspec.decode.base.drafts import Drafts, Launched, Outcome
from otspec.decode.base.metrics import Metrics
from otspec.decode.base.sampling import Sampling
from otspec.decode.drafters.drafter import Drafter, WrappedDrafter
from otspec.decode.models.tokens.matching import Matching
from otspec.decode.step.harness import Run
from otspec.decode.step.in_turn import Now, in_turn, side_by_side
from otspec.decode.step.strategy import DraftModels, Prepared, Strategy
from otspec.decode.tuning.candidates import PLAIN, Candidate
from otspec.decode.tuning.costs import Trial
from otspec.errors import ProblemError
from otspec.laws import FloatArray, IntArray

Begin = Callable[..., Run]
"""Called as ``begin(strategy, prompt=..., seed=...)``, a prompt being a list of tokens."""

REPEATED = 2
"""Steps of one depth in a row: on a GPU the next drafts are launched ahead while the depth stays."""


def depths_of(most: int) -> list[int]:
    """The depths of the steps of a trial, each `REPEATED` times, and then again from the first on.

    All are up to the deepest, which half of the steps have, so that acceptance is known there too; what a step takes is
    measured at three.
    """
    return [most, max(most // 2, 1), most, 1]


class VaryingDrafter(WrappedDrafter):
    """A drafter whose depth changes from step to step.

    Parameters
    ----------
    drafter : Drafter
    most : int
    """

    def __init__(self, drafter: Drafter, most: int) -> None:
        super().__init__(drafter)
        self._depths = depths_of(most)
        self.drafted: list[int] = []
        """The depth of every step that had drafts."""

    def depth(self, lengths: IntArray) -> int:
        """That of the next step, if the drafter goes so far."""
        return min(super().depth(lengths), self._depths[len(self.drafted) // REPEATED % len(self._depths)])

    def draft(self, texts: Sequence[Sequence[int]], depth: int) -> Drafts:
        """Draft."""
        self.drafted.append(depth)
        return super().draft(texts, depth)

    def launch(self, texts: Sequence[Sequence[int]], depth: int) -> Launched | None:
        """Draft before the host reads the drafts, where the drafter inside does."""
        launched = self.inner.launch(texts, depth)
        if launched is not None:
            self.drafted.append(depth)
        return launched

    def launch_next(self, drafts: Launched, outcome: Outcome, states: torch.Tensor | None) -> None:
        """Launch the drafts of the next step."""
        self.inner.launch_next(drafts, outcome, states)


@dataclass(eq=False)
class Varying:
    """A strategy at depths that vary from step to step: one run then shows what all of them give and take."""

    strategy: Strategy
    most: int
    drafter: VaryingDrafter = field(init=False)
    """Of the run that it was prepared for."""

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
        self.drafter = VaryingDrafter(drafter, self.most)
        return Prepared(self.drafter, verifier)


class TimedStep(NamedTuple):
    """A step of one text."""

    depth: int
    """Levels that were drafted."""
    seconds: float


class TrialRun:
    """One text by one family, at depths that vary.

    Parameters
    ----------
    begin : Begin
    strategy : Strategy
        Of the family at its largest depth, or plain decoding.
    most : int
        The largest depth; 0 for plain decoding.
    now : Now
    """

    def __init__(self, begin: Begin, strategy: Strategy, most: int, now: Now) -> None:
        varying = Varying(strategy, most)
        began = now()
        self.run = begin(varying)
        self.start = now() - began
        """Seconds of preparation, and of reading the prompt."""
        self.steps: list[TimedStep] = []
        self._drafted = varying.drafter.drafted
        self.metrics = Metrics()
        """Once it is over."""

    def count(self, seconds: float) -> None:
        """Count a step that the run has had."""
        drafted = sum(step.depth > 0 for step in self.steps)
        self.steps.append(TimedStep(sum(self._drafted[drafted:]), seconds))

    def end(self) -> None:
        """Keep the metrics, and let go of the models' caches."""
        self.metrics = self.run.generation.metrics
        del self.run


def trial_of(runs: Sequence[TrialRun], plain: Sequence[TrialRun], most: int) -> Trial:
    """What a family's first texts show, beside plain decoding of the same ones.

    A machine has a speed of its own in every text, by plain decoding's steps; times are those at its median speed.

    Parameters
    ----------
    runs : sequence of TrialRun
    plain : sequence of TrialRun
        As many or more.
    most : int
        The largest depth; 0 for plain decoding.

    Raises
    ------
    ProblemError
        If no text had a second step.
    """
    paces = np.array([_typical([step.seconds for step in one.steps]) for one in plain])
    scale = np.median(paces) / np.maximum(paces, 1e-12)
    steps = _steps(runs, scale, most)
    starts, plain_starts = _starts(runs, scale, steps), _starts(plain, scale, _steps(plain, scale, 0))
    more = [own - of_plain for own, of_plain in zip(starts, plain_starts, strict=False) if own == own]
    levels = [step.depth for one in runs for step in one.steps]
    drafted = [deeper for level in range(most) if (deeper := sum(depth > level for depth in levels))]
    metrics = sum((one.metrics for one in runs), Metrics())
    accepted = [*metrics.accepted, *[0] * len(drafted)]  # copies may be shorter than requested
    return Trial(
        steps,
        max(float(np.median(plain_starts)) + (float(np.median(more)) if more else 0.0), 0.0),
        tuple(got / of for got, of in zip(accepted, drafted, strict=False)),
        len(runs),
    )


def _steps(runs: Sequence[TrialRun], scale: FloatArray, most: int) -> dict[int, float]:
    """Seconds of a step by its depth, all but the first of every text."""
    found: defaultdict[int, list[float]] = defaultdict(list)
    for one, factor in zip(runs, scale, strict=False):
        for step in one.steps[1:]:
            found[step.depth].append(step.seconds * factor)
    if not found:
        raise ProblemError("all texts ended within one step; pass other prompts to tune with, or more new tokens")
    # A drafter of few tokens goes less deep than requested.
    wanted = {0} if most == 0 else set(depths_of(max(found)))
    timed = {depth: _typical(times) for depth, times in found.items()}
    return {depth: timed[depth] for depth in timed.keys() & wanted} or timed


def _typical(seconds: Sequence[float]) -> float:
    """The mean, as other processes take their share of every step, without those in which a graph was captured."""
    times = np.array(seconds)
    return float(times[times <= 5 * np.median(times)].mean())


def _starts(runs: Sequence[TrialRun], scale: FloatArray, steps: Mapping[int, float]) -> list[float]:
    """What each text took besides its steps, of which the first takes longer; NaN where steps like it are unknown."""
    firsts = [one.steps[0] for one in runs]
    return [
        (one.start + first.seconds) * factor - steps.get(first.depth, math.nan)
        for one, first, factor in zip(runs, firsts, scale, strict=False)
    ]


class Trials:
    """Trials of families, which go on for as long as they are granted.

    Parameters
    ----------
    begin : Begin
    prompts : sequence of lists of int
    seed : int
        Of the first text.
    now : Now
    device : torch.device
        Of the target.
    report : callable
        Called after every step.
    """

    def __init__(
        self,
        begin: Begin,
        prompts: Sequence[Sequence[int]],
        seed: int,
        now: Now,
        device: torch.device,
        report: Callable[[], None] = lambda: None,
    ) -> None:
        self._begin, self._prompts, self._seed, self._now = begin, prompts, seed, now
        self._device, self._report = device, report
        self.texts = 0
        """Prompts so far."""
        self._runs: defaultdict[Candidate, list[TrialRun]] = defaultdict(list)

    def go_on(self, ways: Mapping[Candidate, Strategy], until: float) -> None:
        """Decode one prompt by all ways in turn, then the next, while there is time, and one if there is none yet.

        Parameters
        ----------
        ways : mapping
            The strategies of families at their largest depth, and of plain decoding.
        until : float
            By the clock.
        """
        while not self.texts or self._now() < until:
            for group in side_by_side(list(ways.items()), self._device):
                going = [self._begun(way, strategy) for way, strategy in group]
                for at, spent in in_turn([one.run for one in going], self._now):
                    going[at].count(spent)
                    self._report()
                for one in going:
                    one.end()
            self.texts += 1

    def _begun(self, way: Candidate, strategy: Strategy) -> TrialRun:
        """A text by one way."""
        number = self.texts
        begin = partial(self._begin, prompt=self._prompts[number % len(self._prompts)], seed=self._seed + number)
        self._runs[way].append(one := TrialRun(begin, strategy, way.depth, self._now))
        self._report()
        return one

    def of(self, way: Candidate) -> Trial:
        """What was found of a way."""
        return trial_of(self._runs[way], self._runs[PLAIN], way.depth)
