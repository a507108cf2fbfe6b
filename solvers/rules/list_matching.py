"""`list_matching`: drafts and output from shared exponential variables, Gumbel-max list sampling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from otspec.certificate import upper_bound
from otspec.plans.race import Race
from otspec.problem import Problem
from otspec.schemes import IID, DraftScheme
from otspec.solver import Solution, register
from otspec.solvers.base import refuse_above
from otspec.solvers.rules.base import Rule


@register("list_matching")
@dataclass(frozen=True)
class ListMatching(Rule):
    """Gumbel-max list sampling, the rule of the list matching lemma [rowan2025list, alg. 1 and 2].

    Give every draft k and token i an exponential S_ik.  Draft k is the i with the least S_ik / q_i, the output the i
    with the least S_ik / p_i over all k.  Both have their laws, the output whatever the drafts' model is: if the
    drafter hands over its S, the output is a function of S, p and the set of drafts still alive, and does not change
    when q does (*drafter invariance*).

    Our rules see the drafts, not S, so the plan draws the output from its law given the drafts.  The joint law of
    drafts and output, and what is accepted, are the same; the invariance, which is one of samples, is not kept.

    The settings are those of `otspec.solvers.rules.base.Rule`.

    Examples
    --------
    >>> import otspec
    >>> problem = otspec.Problem([0.5, 0.3, 0.2], otspec.IID([0.2, 0.3, 0.5], n=2))
    >>> plan = otspec.solve(problem, otspec.solvers.ListMatching()).plan
    >>> print(f"{plan.acceptance:.3f} of at most {plan.bound:.3f}")
    0.774 of at most 0.860
    """

    schemes: ClassVar[str] = "i.i.d. drafts"
    takes: ClassVar[tuple[type[DraftScheme], ...]] = (IID,)
    drawn_by: ClassVar[str] = "otspec.IID"

    def __call__(self, problem: Problem) -> Solution:
        """The race, whose figures are integrals over some 200 times and all tokens."""
        refuse_above(self.max_cells, 200 * problem.vocab, "probabilities at times of the race")
        return Solution(Race(problem, upper_bound(problem)), {})
