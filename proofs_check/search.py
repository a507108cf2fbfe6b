"""How to look for an instance that contradicts a claim."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
from scipy.optimize import minimize

from otspec.laws import FloatArray

Instance: TypeAlias = Mapping[str, Any]
"""Arrays, numbers and words by name: what a margin takes, and what JSON can carry."""

Draw: TypeAlias = Callable[[np.random.Generator], Instance]
"""Makes a random instance."""

Attempt: TypeAlias = Callable[[Instance], float]
"""Keeps the worst of what it is given, and returns the margin, -inf where that is no number."""

DEEPEST = 30.0
"""Logarithms of probabilities are kept within this distance of the largest, as a law of floats would."""


class Search(Protocol):
    """A way to choose the instances that are attempted."""

    def __call__(self, draw: Draw, attempt: Attempt, trials: int, rng: np.random.Generator) -> None:
        """Spend about `trials` attempts."""


@dataclass(frozen=True)
class Random:
    """Independent draws."""

    def __call__(self, draw: Draw, attempt: Attempt, trials: int, rng: np.random.Generator) -> None:
        """Attempt `trials` draws."""
        for _ in range(trials):
            attempt(draw(rng))


RANDOM = Random()


@dataclass(frozen=True)
class Listed:
    """Every instance of a list: a proof where the list is complete.  Its length does not depend on `trials`."""

    instances: Callable[[], Iterable[Instance]]

    def __call__(self, draw: Draw, attempt: Attempt, trials: int, rng: np.random.Generator) -> None:
        """Attempt the whole list."""
        for instance in self.instances():
            attempt(instance)


@dataclass(frozen=True)
class Descent:
    """Random draws, then a local search (Nelder-Mead) from the worst of them.

    Entries of the instance named in `laws` move in the space of laws along their last axis, by a softmax of free
    logarithms; those named in `free` move freely; all others keep the values of the draw.
    """

    laws: tuple[str, ...] = ()
    free: tuple[str, ...] = ()
    restarts: int = 3

    def __post_init__(self) -> None:
        """Insist that something may move.

        Raises
        ------
        ValueError
            If no entry is named.
        """
        if not (self.laws or self.free):
            raise ValueError("Descent() has nothing to move; name entries in laws or free, or draw by RANDOM")

    def __call__(self, draw: Draw, attempt: Attempt, trials: int, rng: np.random.Generator) -> None:
        """Spend half of the attempts on draws, and the rest on walks from the worst."""
        drawn = [draw(rng) for _ in range((trials + 1) // 2)]
        margins = [attempt(instance) for instance in drawn]
        steps = trials // (2 * self.restarts)
        for start in np.argsort(margins)[: self.restarts]:
            self._walk(drawn[start], attempt, steps)

    def _walk(self, start: Instance, attempt: Attempt, steps: int) -> None:
        shapes = {name: np.shape(start[name]) for name in (*self.laws, *self.free)}
        ends = np.cumsum([int(np.prod(shape)) for shape in shapes.values()])
        if steps < 1 or ends[-1] == 0:
            return

        def instance(point: FloatArray) -> Instance:
            parts = dict(zip(shapes, np.split(point, ends[:-1]), strict=True))
            moved = {name: part.reshape(shapes[name]) for name, part in parts.items()}
            return {**start, **moved, **{name: softmax(moved[name]) for name in self.laws}}

        def height(point: FloatArray) -> float:
            return attempt(instance(point))

        parts = [np.log(np.maximum(start[name], np.exp(-DEEPEST))) for name in self.laws]
        parts += [np.asarray(start[name], dtype=np.float64) for name in self.free]
        x0: FloatArray = np.concatenate([part.ravel() for part in parts])
        with np.errstate(invalid="ignore"):  # a margin of -inf at several corners
            minimize(height, x0, method="Nelder-Mead", options={"maxfev": steps})


def softmax(logits: FloatArray) -> FloatArray:
    """Laws along the last axis from logarithms, each within `DEEPEST` of the largest."""
    weights = np.exp(np.maximum(logits - logits.max(axis=-1, keepdims=True), -DEEPEST))
    return weights / weights.sum(axis=-1, keepdims=True)
