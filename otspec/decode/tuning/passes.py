"""How long passes take, by the number of rows they read: the passes of decoding itself, and nothing around them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from transformers import PreTrainedModel

from otspec.decode.base.metrics import wait_for
from otspec.decode.models.context import Context, positions, vocabulary
from otspec.decode.tuning.costs import PassTimes

Now = Callable[[], float]
"""A clock, in seconds."""

FEWEST = 5
"""Passes of every width that are timed at least."""


class Passes:
    """Passes of one model over rows after a text, as trees are read.

    Parameters
    ----------
    model : PreTrainedModel
    text : sequence of int
        What has been read before; it is cut where the model's positions would end.
    siblings : bool
        Whether the rows of a pass are one level of a tree, as the draft model reads it, or a line as deep as the tree,
        which costs the target what a tree does.
    depth : int
        Positions that the rows take at most.
    now : Now
    """

    @torch.no_grad()
    def __init__(self, model: PreTrainedModel, text: Sequence[int], siblings: bool, depth: int, now: Now) -> None:
        room = min(positions(model) - depth, len(text))
        self.text = [min(token, vocabulary(model) - 1) for token in text[: max(int(room), 1)]]
        self.context = Context(model, [self.text])
        self.siblings = siblings
        self.depth = depth
        self.now = now

    def time(self, rows: int) -> float:
        """Seconds of a pass."""
        device = self.context.device
        tokens = torch.from_numpy(np.resize(np.array(self.text), (1, rows))).to(device)
        deep = np.zeros(rows, dtype=np.int64) if self.siblings else np.minimum(np.arange(rows), self.depth - 1)
        position = torch.from_numpy(len(self.text) + deep[None]).to(device)
        sees = None
        if rows > 1:
            seen = torch.eye(rows) if self.siblings else torch.ones(rows, rows).tril()
            sees = seen.bool()[None].to(device)
        wait_for(device)
        started = self.now()
        self.context.read(tokens, position, sees, keep=rows)
        wait_for(device)
        spent = self.now() - started
        self.context.commit([[]], [0])
        return spent


@torch.no_grad()
def pass_times(
    models: Sequence[tuple[Passes, Sequence[int]]], seconds: float, now: Now, report: Callable[[], None] = lambda: None
) -> list[PassTimes]:
    """The median time of a pass for several models, and numbers of rows of each.

    All are timed in turn, `FEWEST` times at least and then for as long as there is time: whatever else the machine does
    in the meantime hits all of them alike.

    Parameters
    ----------
    models : sequence of (Passes, numbers of rows)
    seconds : float
    now : Now
    report : callable
        Called once a round.
    """
    found: list[dict[int, list[float]]] = [{count: [] for count in sorted(rows)} for _, rows in models]
    for passes, rows in models:
        for count in rows:
            passes.time(count)  # the first of a width allocates, and on some devices compiles
    began, rounds = now(), 0
    while rounds < FEWEST or now() - began < seconds:
        for (passes, _), times in zip(models, found, strict=True):
            for count, spent in times.items():
                spent.append(passes.time(count))
        rounds += 1
        report()
    return [PassTimes(tuple(times), tuple(float(np.median(spent)) for spent in times.values())) for times in found]


def doubling(most: int) -> list[int]:
    """1, 2, 4, ... and the most."""
    return sorted({*(2**power for power in range(most.bit_length())), most})
