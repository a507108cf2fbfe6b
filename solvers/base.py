"""What solvers share: their class members, the schemes they take, and the guard against sizes beyond memory."""

from __future__ import annotations

from typing import ClassVar

from otspec.certificate import readable
from otspec.problem import Problem
from otspec.results import Status
from otspec.schemes import DraftScheme
from otspec.solver import Stopped


class SolverBase:
    """The members of the `otspec.solver.Solver` protocol that most solvers need not write."""

    name: ClassVar[str]
    exact: ClassVar[bool] = True
    schemes: ClassVar[str] = "any"
    variants: ClassVar[tuple[str, ...]] = ()
    takes: ClassVar[tuple[type[DraftScheme], ...]] = (DraftScheme,)
    """The schemes that the solver takes, at any size."""
    drawn_by: ClassVar[str] = ""
    """How to draw such drafts, for the message to users who drew others; needed where `takes` is not every scheme."""

    @property
    def packages(self) -> tuple[str, ...]:
        """Optional packages that the settings need."""
        return ()

    def supports(self, problem: Problem) -> str | None:
        """None if the solver takes such drafts, else which others it takes."""
        if isinstance(problem.scheme, self.takes):
            return None
        return f"{self.name} takes {self.schemes} ({self.drawn_by}), not {type(problem.scheme).__name__}"


def refuse_above(limit: int, needed: int, what: str) -> None:
    """Stop a solver whose program would be larger than its setting allows, before anything is built.

    Raises
    ------
    Stopped
        With status LIMIT, if `needed` exceeds `limit`.
    """
    if needed > limit:
        raise Stopped(
            Status.LIMIT,
            f"{readable(needed)} {what} exceed max_cells = {limit:,}; truncate the drafts, or raise max_cells",
        )
