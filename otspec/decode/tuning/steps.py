"""What steps take by their shape: whole steps of decoding, of every number of paths and every depth in turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from otspec.decode.pacing.costs import MeasuredCosts, Step, StepCosts
from otspec.decode.pacing.goodput import Goodput
from otspec.decode.step.strategy import Strategy
from otspec.decode.tuning.passes import Now
from otspec.decode.tuning.trials import Decoding
from otspec.errors import ProblemError
from otspec.verification.trees.shape import Shape

ALL_OF_THEM = 1 << 20
"""Times of a kind of step."""


class InTurn(MeasuredCosts):
    """Has the shapes drafted in turn, for as long as it is asked."""

    def __init__(self, now: Now) -> None:
        super().__init__(now, ALL_OF_THEM)

    def note(self, step: Step, seconds: float, whole: bool = True) -> None:
        """Take the time of a step, but where prefixes were merged: shapes that branch are chosen where they part."""
        if whole:
            super().note(step, seconds)

    def wanted(self, choices: Sequence[Shape]) -> Shape:
        """The shape that was tried least often."""
        least = min(choices, key=self._tried.__getitem__)
        self._tried[least] += 1
        return least


def step_costs(
    strategies: Sequence[Callable[[Goodput], Strategy]],
    decode: Decoding,
    prompts: Sequence[Sequence[int]],
    seed: int,
    seconds: float,
    now: Now,
    tell: Callable[[], None] = lambda: None,
) -> StepCosts:
    """Decode one prompt after the other while there is time, the strategies in turn and each depth as often as others.

    Parameters
    ----------
    strategies : sequence of callable
        Each decodes by a pace that chooses among the depths of one shape.
    decode : callable
    prompts : sequence of lists of int
    seed : int
    seconds : float
    now, tell : callable

    Raises
    ------
    ProblemError
        If no text has a step after its first.
    """
    costs = InTurn(now)
    paced, began, rounds = [strategy(Goodput(costs)) for strategy in strategies], now(), 0
    while rounds < len(paced) or now() - began < seconds:
        decode(paced[rounds % len(paced)], prompts[rounds % len(prompts)], seed=seed + rounds)
        tell()
        rounds += 1
    if not costs.timed:
        raise ProblemError("all texts ended within one step; pass other prompts to tune with, or more new tokens")
    return costs.kept()
