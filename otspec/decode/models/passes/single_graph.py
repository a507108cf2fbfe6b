"""Several passes of a model, and all that is computed and drawn between them, captured as one CUDA graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from otspec.decode.base.graphs import GraphedCallable
from otspec.laws import IntArray

Steps = Callable[..., tuple[torch.Tensor, ...]]
"""Takes tensors and a generator, and does not wait for the host."""


class GraphedSequence:
    """Steps at inputs of one shape, where they find these, and the graph once there is one.

    Parameters
    ----------
    inputs : sequence of Tensors
        Of the shapes of all that will come, on the device or the host.
    batch : int
    device : torch.device
    """

    def __init__(self, inputs: Sequence[torch.Tensor], batch: int, device: torch.device) -> None:
        with torch.inference_mode(False):
            self.inputs = [torch.zeros_like(one, device=device) for one in inputs]
            self._place = torch.zeros(batch + 1, dtype=torch.long, device=device)
        self.passes: list[Any] = []
        """What was read by the steps, in order; `start` counts from the first column on trial."""
        self.replayed: GraphedCallable[tuple[torch.Tensor, ...]] = GraphedCallable()

    @property
    def length(self) -> torch.Tensor:
        """Tokens read of each text, shape (B,)."""
        return self._place[:-1]

    @property
    def end(self) -> torch.Tensor:
        """Columns of the cache that are settled, shape (1,)."""
        return self._place[-1:]

    def fill(self, inputs: Sequence[torch.Tensor], length: IntArray, end: int) -> None:
        """Set the inputs of the steps, and the columns where they begin."""
        for mine, theirs in zip(self.inputs, inputs, strict=True):
            mine.copy_(theirs, non_blocking=True)
        self._place.copy_(torch.from_numpy(np.append(length, end)), non_blocking=True)

    def do(self, steps: Steps, generator: torch.Generator | None, pool: Any) -> tuple[torch.Tensor, ...]:
        """Launch by launch the first time, captured the second; what they give the next run or pass overwrites.

        Parameters
        ----------
        steps : callable
        generator : torch.Generator, optional
            What they draw from, which is left as they leave it.
        pool : object
            Where graphs put what they need in between; None to launch always.
        """
        return self.replayed.run(lambda drawn_from: steps(*self.inputs, drawn_from), pool, generator)
