"""What the scripts measure on, and how they time it."""

from __future__ import annotations

import time
from collections.abc import Callable

from otspec.data import Position
from otspec.laws import FloatArray
from otspec.schemes import IID


def laws_of(
    position: Position, k: int | None = None, temperature: float = 1.0, compact: bool = True
) -> tuple[FloatArray, FloatArray]:
    """Target at a temperature, and draft at 1 truncated to its k likeliest tokens; nothing, or 0, keeps them all.

    If compact, both are on the tokens that can be drafted, and one for all the rest.
    """
    problem = position.problem(1, top_k=k or None, temperature=temperature, draft_temperature=1.0)
    if compact:
        problem = problem.compact().problem
    assert isinstance(problem.scheme, IID)
    return problem.p, problem.scheme.q


def seconds(call: Callable[[], object], repeats: int = 3) -> float:
    """Best of a few runs: the machine is shared, and what others do to the time is no property of the code."""
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return min(times)
