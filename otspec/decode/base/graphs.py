"""CUDA graphs: work that is repeated at one shape is launched once, captured once, and replayed from then on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import torch

Outputs = TypeVar("Outputs")
Work = Callable[[torch.Generator | None], Outputs]
"""Takes the generator that it draws from, and does not wait for the host."""


def capture(
    work: Work[Outputs], pool: Any = None, generator: torch.Generator | None = None
) -> tuple[torch.cuda.CUDAGraph, Outputs]:
    """A graph of some work, which has been done before, and the tensors that its replays write.

    Parameters
    ----------
    work : callable
    pool : object, optional
        Where graphs put what they need in between; this one shares it with others.
    generator : torch.Generator, optional
        What replays draw from.
    """
    graph = torch.cuda.CUDAGraph()
    if generator is not None:
        graph.register_generator_state(generator)
    # Others may go on with their own work.
    with torch.no_grad(), torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
        return graph, work(generator)


class GraphedCallable(Generic[Outputs]):
    """Work at tensors of its own: launched the first time, captured the second, and replayed from then on.

    The first time kernels may still be chosen and compiled, which a capture must not do.  What goes in is copied into
    the same tensors every time; what comes out the next replay overwrites.
    """

    def __init__(self) -> None:
        self._launched = False
        self._graph: torch.cuda.CUDAGraph | None = None
        self._generator: torch.Generator | None = None
        self._outputs: Outputs

    @property
    def captured(self) -> bool:
        """Whether there is a graph."""
        return self._graph is not None

    def run(self, work: Work[Outputs], pool: Any, generator: torch.Generator | None = None) -> Outputs:
        """Do the work; the same numbers are drawn in all three ways.

        Parameters
        ----------
        work : callable
            The same every time.
        pool : object
            Where graphs put what they need in between; None to launch always.
        generator : torch.Generator, optional
            What it draws from, which is left as the work leaves it.
        """
        if self._graph is None:
            if pool is None or not self._launched:
                self._launched = True
                return work(generator)
            if generator is not None:
                self._generator = torch.Generator(generator.device)
            self._graph, self._outputs = capture(work, pool, self._generator)
        if generator is None or self._generator is None:
            self._graph.replay()
        else:
            self._generator.set_state(generator.get_state())
            self._graph.replay()
            generator.set_state(self._generator.get_state())
        return self._outputs
