"""What the published verification rules share: settings, draft laws, refusals, bounds."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from otspec.certificate import cells_at_most, upper_bound
from otspec.laws import FloatArray, as_law, sum_by
from otspec.plans import BiasedPlan, Sequential, SequentialRule
from otspec.problem import Problem
from otspec.schemes import DraftScheme
from otspec.solver import Solution
from otspec.solvers.base import SolverBase, refuse_above
from otspec.tolerances import TOL


@dataclass(frozen=True)
class Rule(SolverBase):
    """A published verification rule; not optimal in general, so its plans come with a gap.

    Parameters
    ----------
    tol : float
        Largest gap and deviation, both probabilities, of a plan that counts as optimal.
    max_cells : int
        Largest enumeration, in numbers added up, where a figure has no closed form.
    """

    tol: float = TOL
    max_cells: int = 20_000_000

    exact: ClassVar[bool] = False


@dataclass(frozen=True)
class SequentialRuleSolver(Rule):
    """A sequential rule that is lossless for drafts of one kind only.

    Parameters
    ----------
    tol, max_cells
        As for `Rule`.
    allow_biased : bool
        Apply the rule to drafts of any law, with q the law of the first.  The plan then measures its true deviation by
        enumeration of the support.  `biased_plan` does so with any q.
    """

    allow_biased: bool = False

    takes: ClassVar[tuple[type[DraftScheme], ...]]
    """The schemes that the rule is lossless for."""
    reason: ClassVar[str]
    """Why, and the way out, as the end of a sentence."""

    def supports(self, problem: Problem) -> str | None:
        """Drafts of its own kind, or any if biased plans are allowed."""
        if self.allow_biased or isinstance(problem.scheme, self.takes):
            return None
        return (
            f"{self.name} is lossless for {self.schemes} only, not for {type(problem.scheme).__name__}: {self.reason}, "
            f"or measure the bias with {self.name}:allow_biased=true"
        )

    @abstractmethod
    def rule(self, problem: Problem, q: FloatArray) -> SequentialRule:
        """The rule for n drafts of its kind from q, shape (V,)."""

    def drafted_from(self, scheme: DraftScheme) -> FloatArray:
        """The q of a scheme."""
        return first_draft(scheme, self.max_cells)

    def biased_plan(self, problem: Problem, q: FloatArray) -> BiasedPlan:
        """The plan of a decoder that believes the drafts to be of the rule's kind, from q, even if they are not.

        Raises
        ------
        Stopped
            With status LIMIT, if the enumeration of the support would exceed `max_cells`.
        """
        refuse_above(self.max_cells, problem.scheme.support_size() * problem.vocab, "output probabilities")
        return BiasedPlan(problem, self.rule(problem, as_law("q", q)), upper_bound(problem))

    def __call__(self, problem: Problem) -> Solution:
        """Set the tests up; figures in closed form on drafts of the rule's kind, by enumeration on others."""
        q = self.drafted_from(problem.scheme)
        if isinstance(problem.scheme, self.takes):
            return Solution(Sequential(problem, self.rule(problem, q), upper_bound(problem)), {})
        return Solution(self.biased_plan(problem, q), {})


def first_draft(scheme: DraftScheme, max_cells: int) -> FloatArray:
    """Law of the first draft, shape (V,), by enumeration where the scheme does not know it.

    Raises
    ------
    Stopped
        With status LIMIT, if the support has more than `max_cells` drafts.
    """
    law = scheme.first_draft()
    if law is not None:
        return law
    refuse_above(max_cells, scheme.support_size() * scheme.n, "drafts")
    drafts, probabilities = scheme.support()
    return sum_by(drafts[:, 0], probabilities, scheme.vocab)


def inclusion(problem: Problem, max_cells: int) -> FloatArray:
    """P(the token is one of the drafts), shape (V,), by enumeration where the scheme does not know it.

    Raises
    ------
    Stopped
        With status LIMIT, if the draft sets have more than `max_cells` cells.
    """
    law = problem.scheme.inclusion()
    if law is not None:
        return law
    refuse_above(max_cells, cells_at_most(problem), "cells")
    sets = problem.scheme.draft_sets()
    return sum_by(sets.cells, sets.mass[sets.owner], problem.vocab)
