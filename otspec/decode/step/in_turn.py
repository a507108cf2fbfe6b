"""Runs in turn, step by step: whatever else a machine does in the meantime hits all of them alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

from otspec.decode.step.harness import Run

Now = Callable[[], float]
"""A clock, in seconds."""

SLICE = 0.05
"""Seconds that a run has at least before another's turn.

What the one before it left in caches, and on the queue of a device, is little of that; and the speed of a machine that
others use as well changes from one second to the next."""


def in_turn(runs: Sequence[Run], now: Now = time.perf_counter) -> Iterator[tuple[int, float]]:
    """Have the steps of several runs until all texts have ended: always of the run with the fewest new tokens.

    Yields which run had a step, and its seconds.
    """
    going = dict(enumerate(runs))
    while going:
        at = min(going, key=lambda one: going[one].tokens)
        began = started = now()
        while at in going and started - began < SLICE:
            if not going[at].step():
                del going[at]
            ended = now()
            yield at, ended - started
            started = ended
