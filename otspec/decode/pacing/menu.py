"""The shapes that a pace chooses among, and what they have in common."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from otspec.errors import ProblemError
from otspec.laws import FloatArray, IntArray
from otspec.paths.shape import Shape

Branching = tuple[int, ...]

NONE = Shape(())
"""What is always on the menu: no draft."""

USUAL: tuple[Branching, ...] = (
    *((1,) * depth for depth in (1, 2, 3, 5, 8)),
    *((2, *(1,) * more) for more in (1, 3, 5)),
    *((4, *(1,) * more) for more in (1, 3)),
    (1, 3, 1, 1),
    (1, 1, 4, 1, 1),
)
"""Single paths, paths from the root, and paths behind stems: few, since on a GPU each has graphs of its own."""

MOST = 64
"""Shapes of a menu: they are compared at every step."""


def cuts(shape: Shape) -> list[Shape]:
    """The first levels of a shape: one, two, ..., all."""
    return [shape.cut(depth) for depth in range(1, shape.depth + 1)]


def menu_of(branchings: Iterable[Sequence[int]]) -> list[Shape]:
    """A checked menu; what stands there twice is there once.

    Raises
    ------
    ProblemError
        If it is empty or too long, or one of them is no shape with levels.
    """
    found = dict.fromkeys(Shape.of(one) for one in branchings)
    if not found or len(found) > MOST:
        raise ProblemError(f"the menu has {len(found)} shapes; pass 1 to {MOST}, such as (1, 1, 1) and (2, 1)")
    if NONE in found:
        raise ProblemError("the menu has a shape without levels; to draft nothing is chosen where it is best anyway")
    return list(found)


def prefixes(menu: Iterable[Shape]) -> list[Branching]:
    """The branchings that the shapes begin with, the shortest first: acceptance to a depth depends on these alone."""
    every = dict.fromkeys(one.branching for shape in menu for one in cuts(shape))
    return sorted(every, key=len)


def beginnings(branchings: Sequence[Branching]) -> IntArray:
    """What each branching begins with, itself included: their places, shape (branchings, levels).

    Where it has fewer levels than others, the place behind the last branching stands.
    """
    place = {branching: at for at, branching in enumerate(branchings)}
    found = np.full((len(branchings), max(map(len, branchings))), len(branchings))
    for at, branching in enumerate(branchings):
        found[at, : len(branching)] = [place[branching[:depth]] for depth in range(1, len(branching) + 1)]
    return found


def members(shapes: Sequence[Shape], branchings: Sequence[Branching]) -> FloatArray:
    """1 where a shape begins with a branching, and 0 elsewhere, shape (shapes, branchings).

    Times the texts that are expected to accept each branching it is what each shape gives besides a token a text.
    """
    return np.array([[float(shape.branching[: len(one)] == one) for one in branchings] for shape in shapes])
