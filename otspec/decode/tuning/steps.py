"""What steps take by their shape: whole steps of decoding, of every number of paths and every depth in turn."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from otspec.decode.pacing.costs import Step, StepCosts, undisturbed
from otspec.decode.step.strategy import Strategy
from otspec.decode.tuning.passes import Now
from otspec.decode.tuning.trials import Decoding, TrialRuns, trials
from otspec.errors import ProblemError
from otspec.verification.trees.shape import Shape


def step_costs(
    strategies: Mapping[Shape, Strategy],
    decode: Decoding,
    prompts: Sequence[Sequence[int]],
    seed: int,
    seconds: float,
    now: Now,
    tell: Callable[[], None] = lambda: None,
) -> StepCosts:
    """Decode one prompt after the other while there is time, the strategies and all their depths in turn.

    Steps in which drafted prefixes were merged are left out: a pace chooses among shapes before it knows that.

    Parameters
    ----------
    strategies : mapping
        By the shape of what they draft at most.
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
    runs = {
        shape: TrialRuns(strategy, shape.depth, now, range(shape.depth + 1)) for shape, strategy in strategies.items()
    }
    trials(runs.values(), decode, prompts, seed, seconds, now, tell)
    times: defaultdict[tuple[int, ...], list[float]] = defaultdict(list)
    for shape, run in runs.items():
        for step in run.steps:
            if step.nodes == (widths := Step.of(1, shape.cut(len(step.nodes))).widths):
                times[widths].append(step.seconds)
    if not times:
        raise ProblemError("all texts ended within one step; pass other prompts to tune with, or more new tokens")
    widths_in_order = sorted(times, key=lambda widths: (len(widths), widths))
    return StepCosts(tuple(widths_in_order), tuple(undisturbed(times[widths]) for widths in widths_in_order))
