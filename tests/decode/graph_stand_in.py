"""A CPU has no CUDA graphs: here a replay does the work again, and writes where it wrote when it was captured."""

from collections.abc import Callable
from typing import Any

import torch


class Pool:
    """Memory that graphs share: what one put out may be where another one puts what it needs in between."""

    def __init__(self) -> None:
        self.outputs: list[Any] = []


class Called:
    """In place of a graph."""

    def __init__(self, work: Callable[[], Any], outputs: Any, pool: object) -> None:
        self._work, self._outputs, self._pool = work, outputs, pool

    def replay(self) -> None:
        """Do the work again; what other graphs of the pool put out is lost."""
        others = self._pool.outputs if isinstance(self._pool, Pool) else []
        for one in (one for outputs in others if outputs is not self._outputs for one in outputs):
            if one is not None:
                one.fill_(torch.nan if one.is_floating_point() else 0)
        for mine, now in zip(self._outputs, self._work(), strict=True):
            if mine is not None:
                mine.copy_(now)


def called_again(work: Callable[..., Any], pool: object, generator: torch.Generator | None) -> tuple[Called, Any]:
    """In place of `otspec.decode.base.graphs.capture`."""
    outputs = work(generator)
    if isinstance(pool, Pool):
        pool.outputs.append(outputs)
    return Called(lambda: work(generator), outputs, pool), outputs
