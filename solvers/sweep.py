"""`sweep`: the exact solver for systematic drafts, for any number of drafts and the whole vocabulary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from otspec.plans import Pick
from otspec.problem import Problem
from otspec.registry import Solution, register
from otspec.schemes import Arcs
from otspec.sweep import sweep
from otspec.tolerances import TOL


@register("sweep")
@dataclass(frozen=True)
class Sweep:
    """Serve the token whose arc ends first, around the circle: exact for systematic drafts, in time O(V log V + n V).

    The statement and its proof are in `otspec.sweep`.

    Parameters
    ----------
    tol : float
        Largest gap and deviation, both probabilities, of a plan that counts as optimal.
    """

    tol: float = TOL

    name: ClassVar[str]
    exact: ClassVar[bool] = True
    schemes: ClassVar[str] = "systematic drafts"
    variants: ClassVar[tuple[str, ...]] = ()
    packages: ClassVar[tuple[str, ...]] = ()

    def supports(self, problem: Problem) -> str | None:
        """Every problem with systematic drafts."""
        if isinstance(problem.scheme, Arcs):
            return None
        return f"sweep takes systematic drafts (otspec.Systematic), not {type(problem.scheme).__name__}"

    def __call__(self, problem: Problem) -> Solution:
        """Solve; the plan looks up the segment of the circle on which the drafts were drawn."""
        assert isinstance(problem.scheme, Arcs)
        rule, minimiser = sweep(problem.p, problem.scheme)
        return Solution(Pick(problem, rule, problem.bound(minimiser)), {"segments": problem.scheme.cuts.size})
