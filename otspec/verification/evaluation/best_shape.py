"""Which tree to draft: the shape that gives most tokens for a budget of target positions and a cost per draft level."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from otspec.certificate import readable
from otspec.errors import ProblemError
from otspec.laws import FloatArray, as_count
from otspec.reporting.means import standard_error
from otspec.verification.evaluation.reach import Context, check_context, reach
from otspec.verification.rules.protocol import PathVerifier
from otspec.verification.trees.shape import MOST_SLOTS, Shape
from otspec.verification.trees.tree import as_shape

Branching = tuple[int, ...]

DEEPEST, MOST_LEVELS = 16, 1024
"""Levels of the shapes that are tried: by default, and at most."""
COUNTS = (2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32, 48, 64)
"""Numbers of paths behind a stem that are tried, as far as the budget allows."""
FIRST, KEPT = 0.25, 6
"""The share of the contexts on which all shapes are measured, and how many go on from there."""


@dataclass(frozen=True, eq=False)
class Measured:
    """How deep a rule got on drafts of one shape.

    Examples
    --------
    >>> import numpy as np
    >>> from otspec.paths import Measured
    >>> found = Measured((2, 1), np.array([[0.9, 0.5], [0.7, 0.3]]))  # two contexts, two levels
    >>> print(f"{found.accepted:.2f} of {found.slots} drafted, {found.rate(level_cost=0.1):.2f} tokens a pass")
    1.20 of 4 drafted, 1.83 tokens a pass
    """

    branching: Branching
    reach: FloatArray
    """Shape (contexts, L): P(at least 1, ..., L drafted tokens are accepted)."""

    def cut(self, depth: int) -> Measured:
        """The first levels alone: what is accepted there does not depend on those below (look-ahead apart)."""
        return Measured(self.branching[:depth], self.reach[:, :depth])

    @property
    def lengths(self) -> FloatArray:
        """Shape (contexts,): accepted length on each context."""
        return self.reach.sum(axis=1)

    @property
    def accepted(self) -> float:
        """Mean accepted length."""
        return float(self.lengths.mean())

    @property
    def error(self) -> float:
        """Its standard error over contexts."""
        return standard_error(self.lengths)

    @property
    def slots(self) -> int:
        """Drafted tokens: target positions besides that of the text's last token."""
        return Shape(self.branching).slots - 1

    def rate(self, level_cost: float = 0.0) -> float:
        """Tokens for the time of a target pass, a step being such a pass and so much of it for each draft level."""
        return (1.0 + self.accepted) / (1.0 + level_cost * len(self.branching))

    def worth(self, level_cost: float) -> tuple[float, int]:
        """What shapes are ranked by: the rate, and of equal ones the fewer drafted tokens."""
        return self.rate(level_cost), -self.slots


def as_contexts(contexts: Any) -> list[Context]:
    """Contexts as a list, one at least."""
    if isinstance(contexts, str) or not isinstance(contexts, Sequence):
        raise ProblemError(f"contexts are {contexts!r}; pass a list of otspec.paths.Context")
    if not contexts:
        raise ProblemError("there are no contexts; pass some, 50 or more for figures to trust")
    for context in contexts:
        check_context(context)
    return list(contexts)


def measure(rule: PathVerifier, contexts: Sequence[Context], branching: Sequence[int]) -> Measured:
    """`reach` on several contexts.

    Raises
    ------
    ProblemError
        If there are no contexts, or as `reach` does.

    Examples
    --------
    >>> from otspec.paths import Context, Nested, measure, synthetic
    >>> contexts = [Context(synthetic("mixed", vocab=20), seed) for seed in range(20)]
    >>> for branching in (4,), (2, 1), (1, 1, 1, 1):  # four drafted tokens each
    ...     print(branching, f"{measure(Nested(), contexts, branching).accepted:.1f}")
    (4,) 1.0
    (2, 1) 1.4
    (1, 1, 1, 1) 1.9
    """
    contexts = as_contexts(contexts)
    branching = as_shape(branching).branching
    return Measured(branching, np.array([reach(rule, context, branching) for context in contexts]))


def shapes_within(budget: int, deepest: int = DEEPEST) -> list[Branching]:
    """One path, K paths behind stems of all lengths, and n-ary trees, as deep as a budget of drafted tokens allows.

    Raises
    ------
    ProblemError
        If a number is not an integer >= 1.

    Examples
    --------
    >>> from otspec.paths import shapes_within
    >>> shapes_within(budget=4)
    [(1, 1, 1, 1), (2, 1), (3,), (4,), (1, 2), (1, 3), (1, 1, 2)]
    """
    budget, deepest = _within_reason(budget, deepest)
    found = [(1,) * min(budget, deepest)]
    for stem in range(min(budget, deepest)):
        found += [filled((*(1,) * stem, paths), budget, deepest) for paths in COUNTS if stem + paths <= budget]
    for children in (2, 3, 4):
        levels = 1
        while sum(children ** (i + 1) for i in range(levels + 1)) <= budget and levels < deepest:
            levels += 1
        if levels > 1:
            found.append((children,) * levels)
    return list(dict.fromkeys(found))


def _within_reason(budget: int, deepest: int) -> tuple[int, int]:
    """Both as integers that trees can have."""
    budget, deepest = as_count("budget", budget), as_count("deepest", deepest)
    if budget >= MOST_SLOTS or deepest > MOST_LEVELS:
        raise ProblemError(
            f"budget is {readable(budget)} and deepest is {readable(deepest)}; a tree drafts fewer than {MOST_SLOTS:,} "
            f"tokens, on at most {MOST_LEVELS:,} levels here"
        )
    return budget, deepest


def filled(branching: Branching, budget: int, deepest: int) -> Branching:
    """A shape made deeper by levels of single children, while the budget lasts."""
    width, slots = math.prod(branching), Shape(branching).slots - 1
    return branching + (1,) * max(min((budget - slots) // width, deepest - len(branching)), 0)


def best_shape(
    rule: PathVerifier,
    contexts: Sequence[Context],
    budget: int,
    level_cost: float = 0.0,
    branchings: Iterable[Sequence[int]] | None = None,
    deepest: int = DEEPEST,
) -> Measured:
    """The shape that gives most tokens for the time, of at most so many drafted tokens.

    A step costs one target pass over the tree, whatever its size within the budget, and `level_cost` for each level
    that is drafted; it gives one token more than it accepts.  All shapes are measured on the first quarter of the
    contexts, the best of them on all, then neighbours of the best, one child more or less on a level, while that gains.
    What a rule accepts down to a depth does not depend on the levels below, so one measurement serves all depths.
    (Of `Nested`, look-ahead treats the last level apart: cut trees are a little better than measured.)

    The figures of the result are those that it was chosen by, hence a little too good: `measure` it on others.

    Parameters
    ----------
    rule : PathVerifier
    contexts : sequence of Context
        Such as will be met; 50 or more.
    budget : int
        Drafted tokens at most, equal ones counted apart: target positions besides that of the text's last token.
    level_cost : float
        Time of drafting one level, over that of a target pass.
    branchings : iterable of sequences of int, optional
        Where to begin; by default `shapes_within` the budget.
    deepest : int
        Levels at most.

    Raises
    ------
    ProblemError
        If there are no contexts or shapes, a shape is over budget or too deep, or a number is out of its range.

    Examples
    --------
    >>> from otspec.paths import Context, Nested, best_shape, synthetic
    >>> contexts = [Context(synthetic("close", vocab=20, seed=seed)) for seed in range(8)]
    >>> for level_cost in 0.0, 1.0:  # where drafting a level costs as much as a target pass, drafts are short
    ...     print(best_shape(Nested(), contexts, budget=4, level_cost=level_cost).branching)
    (1, 1, 1, 1)
    (4,)
    """
    budget, deepest = _within_reason(budget, deepest)
    contexts = as_contexts(contexts)
    if isinstance(level_cost, bool) or not isinstance(level_cost, Real) or not 0 <= level_cost <= sys.float_info.max:
        raise ProblemError(f"level_cost is {level_cost!r}; it is finite and >= 0, a share of a target pass")
    if branchings is not None and (isinstance(branchings, str) or not isinstance(branchings, Iterable)):
        raise ProblemError(f"branchings are {branchings!r}; pass a list of shapes such as (1, 1, 4)")
    given = shapes_within(budget, deepest) if branchings is None else [as_shape(one).branching for one in branchings]
    if not given:
        raise ProblemError("there are no shapes to choose from; pass some branchings")
    for branching in given:
        if Shape(branching).slots - 1 > budget or len(branching) > deepest:
            raise ProblemError(
                f"branching {branching} drafts {Shape(branching).slots - 1} tokens on {len(branching)} levels; "
                f"the budget is {budget} on at most {deepest}"
            )
    few = contexts[: max(int(FIRST * len(contexts)), 1)]
    tried = [_best_cut(measure(rule, few, branching), level_cost) for branching in given]
    tried.sort(key=lambda one: one.worth(level_cost), reverse=True)
    seen = {one.branching for one in tried[:KEPT]}
    best = max((measure(rule, contexts, one) for one in sorted(seen)), key=lambda one: one.worth(level_cost))
    while True:
        near = {filled(one, budget, deepest) for one in _neighbours(best.branching, budget, deepest)} - seen
        seen |= near
        found = [_best_cut(measure(rule, contexts, one), level_cost) for one in sorted(near)]
        better = max(found, key=lambda one: one.worth(level_cost), default=best)
        if better.worth(level_cost) <= best.worth(level_cost):
            return best
        best = better


def _best_cut(measured: Measured, level_cost: float) -> Measured:
    """The depth at which the rate is best."""
    cuts = [measured.cut(depth) for depth in range(1, len(measured.branching) + 1)]
    return max(cuts, key=lambda one: one.worth(level_cost))


def _neighbours(branching: Branching, budget: int, deepest: int) -> list[Branching]:
    """One child more or less on a level, cut where the budget ends."""
    changed = [
        (*branching[:level], children + change, *branching[level + 1 :])
        for level, children in enumerate(branching)
        for change in (-1, 1)
        if children + change
    ]
    if len(branching) < deepest:
        changed.append((*branching, 1))
    return [cut for one in changed if (cut := _within(one, budget))]


def _within(branching: Branching, budget: int) -> Branching:
    """The levels that a budget pays for."""
    return next((branching[:d] for d in range(len(branching), 0, -1) if Shape(branching[:d]).slots - 1 <= budget), ())
