"""The size guard that solvers share: refuse rather than swap."""

from __future__ import annotations

from otspec.problem import Problem
from otspec.registry import Stopped
from otspec.results import Status


def refuse_above(limit: int, needed: int, what: str) -> None:
    """Stop a solver whose program would be larger than its setting allows, before anything is built.

    Raises
    ------
    Stopped
        With status LIMIT, if `needed` exceeds `limit`.
    """
    if needed > limit:
        size = f"{needed:,}" if needed < 10**15 else f"{needed:.1e}"
        raise Stopped(
            Status.LIMIT, f"{size} {what} exceed max_cells = {limit:,}; truncate the drafts, or raise max_cells"
        )


def cells_at_most(problem: Problem) -> int:
    """An upper bound on the number of (draft set, token of it) pairs, without listing them."""
    return problem.n * problem.scheme.set_count()
