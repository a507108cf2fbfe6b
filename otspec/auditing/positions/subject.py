"""A rule for one position as the subject of an audit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from otspec.auditing import instances as families
from otspec.auditing.calling import label_of
from otspec.auditing.deadline import Deadline
from otspec.auditing.outcome import Figures
from otspec.auditing.positions.cases import MAX_TUPLES, Drafting, PositionCase
from otspec.auditing.positions.optima import optimum_iid, optimum_of
from otspec.auditing.positions.rules import BatchedRule, Rule, rule_of
from otspec.auditing.positions.sampling import InBatches, OneByOne
from otspec.auditing.positions.tally import PositionTally
from otspec.auditing.settings import AuditSettings
from otspec.auditing.subject import Enumerated, Sampler, Subject, Wording
from otspec.errors import ProblemError
from otspec.laws import FloatArray, as_count

MOST_UNIFORMS = 1 << 20
"""Uniforms of one call of a rule: thousands of calls are made."""


class Position(Subject[PositionCase]):
    """A rule for one position, with its drafts; `otspec.audit` explains the arguments.

    Raises
    ------
    ProblemError
        If an argument is out of range, or the form of the rule cannot be told.
    UnknownSolver
        If the rule is a string that names no solver.
    MissingExtra
        If the rule takes torch tensors, and torch is not installed.
    """

    wording = Wording(
        case="instance",
        right="the output law is p",
        right_so_far="the output law is p on {done}",
        off="the output law is off p",
    )

    def __init__(
        self,
        rule: Any,
        scheme: Any,
        *,
        form: str | None,
        drafter: Any,
        shown: Callable[[FloatArray], Any] | None,
        instances: Sequence[tuple[Any, Any]] | None,
        logits: Sequence[tuple[Any, Any]] | None,
        uniforms: int | None,
        settings: AuditSettings,
    ) -> None:
        self._n = settings.n
        coins = as_count("uniforms", 2 * self._n + 1 if uniforms is None else uniforms)
        if coins > MOST_UNIFORMS:
            raise ProblemError(f"uniforms is {coins}; an audit hands a rule at most {MOST_UNIFORMS:,}")
        self.rule: Rule | BatchedRule = rule_of(rule, form, coins, settings.tol, Deadline(settings.max_seconds))
        self._drafting = Drafting.of(scheme, drafter, shown)
        self.given = [self._drafting.case(instance, self._n) for instance in families.given(instances, logits)]
        self.label = label_of(rule)
        self.form = self.rule.form.value
        self.drafts = self._drafting.label
        self.own_drafter = self._drafting.drafter is not None

    @property
    def has_law(self) -> bool:
        """Whether the rule gives its law, and the drafts come from a scheme."""
        return self.rule.has_law and not self.own_drafter

    @property
    def not_enumerable(self) -> str:
        """Why an exact audit is not possible, and what would make it so."""
        return (
            f"a rule of form {self.form} cannot be enumerated here: that takes a conditional law (form law or plan) "
            f"and drafts of a known scheme, at most {MAX_TUPLES:,} tuples of them; leave method out"
        )

    def cases_to_enumerate(self, seed: int) -> list[PositionCase]:
        """The audit's own instances that the scheme can draw n drafts from."""
        return self._drafting.cases(families.small(seed, self._n, self._rows), self._n)

    def cases_to_sample(self, seed: int) -> list[PositionCase]:
        """Fewer of the audit's own instances, and two over larger vocabularies."""
        return self._drafting.cases(families.to_sample(seed, self._n, self._rows), self._n)

    @property
    def _rows(self) -> int | None:
        """Number of laws that q has; None where all drafts have one law."""
        return self._n if self._drafting.rows else None

    def prepare(self, case: PositionCase) -> None:
        """Solve the case, where the rule is a solver."""
        self.rule.prepare(case)

    def enumerate(self, case: PositionCase) -> Enumerated[PositionCase]:
        """Sum the law over all tuples of drafts."""
        assert isinstance(self.rule, Rule)
        assert case.drafted is not None
        output = np.zeros(case.vocab)
        membership = 0.0
        steps: float | None = 0.0
        for drafts, probability in zip(*case.drafted.support(), strict=True):
            law, accepted = self.rule.law(case, drafts)
            output += probability * law
            membership += probability * float(law[np.unique(drafts)].sum())
            steps = None if steps is None or accepted is None else steps + probability * accepted
        tv = float(np.abs(output - case.p).sum()) / 2
        figures = Figures(
            name=case.name,
            vocab=case.vocab,
            tv=tv,
            tv_interval=(tv, tv),
            membership=float(membership),
            step_acceptance=steps,
            optimum=optimum_of(case),
            optimum_iid=optimum_iid(case),
            tv_tokens=tv,
            drafts_tv=_drafts_tv(case),
        )
        return Enumerated(case, figures, output)

    def sampler(self, rng: np.random.Generator) -> Sampler:
        """The rule with its drafts, ready to be drawn from."""
        if isinstance(self.rule, BatchedRule):
            return InBatches(self.rule, self._drafting.drafter, rng)
        return OneByOne(self.rule, self._drafting.drafter, rng)

    def tally(self, case: PositionCase, simultaneous: bool) -> PositionTally:
        """A count of the draws on one instance."""
        return PositionTally(case, simultaneous)


def _drafts_tv(case: PositionCase) -> float:
    """Total variation of the law that the drafts come from to the declared one."""
    if case.declared is case.drafted:
        return 0.0
    assert case.drafted is not None
    drafts, probabilities = case.drafted.support()
    return float(np.maximum(probabilities - case.declared.prob(drafts), 0.0).sum())
