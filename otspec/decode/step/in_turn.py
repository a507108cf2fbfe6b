"""Runs in turn, step by step: whatever else a machine does in the meantime hits all of them alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import torch

from otspec.decode.step.harness import Run

T = TypeVar("T")

Now = Callable[[], float]
"""A clock, in seconds."""

SLICE = 0.05
"""Seconds that a run has at least before another's turn.

What the one before it left in caches, and on the queue of a device, is little of that; and the speed of a machine that
others use as well changes from one second to the next."""


def in_turn(runs: Sequence[Run], now: Now) -> Iterator[tuple[int, float]]:
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


def side_by_side(ways: Sequence[T], device: torch.device) -> list[Sequence[T]]:
    """The ways to decode that run at a time on a device.

    A CPU has all of them in turn.  On a GPU each is alone: it has caches and graphs of its own there, for which there
    may be no room, and the graphs of the run before it are captured already.
    """
    return [ways] if device.type == "cpu" else [[way] for way in ways]


def timed_in_turn(
    begins: Sequence[Callable[[], Run]], device: torch.device, now: Now, report: Callable[[], None]
) -> list[float]:
    """Begin runs and have their steps, as many at a time as the device has; the seconds of a token of each.

    Parameters
    ----------
    begins : sequence of callable
    device : torch.device
    now : Now
    report : callable
        Called after every step.
    """
    found: list[float] = []
    for group in side_by_side(begins, device):
        runs, spent = list[Run](), list[float]()
        for begin in group:
            started = now()
            runs.append(begin())
            spent.append(now() - started)
            report()
        for at, seconds in in_turn(runs, now):
            spent[at] += seconds
            report()
        found += [taken / one.tokens for taken, one in zip(spent, runs, strict=True)]
    return found
