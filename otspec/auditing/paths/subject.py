"""A rule for drafted paths as the subject of an audit."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from otspec.auditing.calling import label_of
from otspec.auditing.deadline import Deadline
from otspec.auditing.instances import HOSTILE, ORDINARY
from otspec.auditing.paths.cases import MAX_TREES, PathCase, case_of, own_models
from otspec.auditing.paths.report import PathFigures
from otspec.auditing.paths.rules import PathRule, rule_of
from otspec.auditing.paths.sampling import PathSampler, PathTally
from otspec.auditing.settings import AuditSettings
from otspec.auditing.subject import Enumerated, Sampler, Subject, Wording
from otspec.errors import ProblemError
from otspec.laws import FloatArray
from otspec.paths import Model, Tree
from otspec.verification.reference.enumeration import law_over
from otspec.verification.trees.shape import Shape

SAMPLED = (*ORDINARY, "zeros", "ties", "point target")
"""Kinds of models that are drawn from: fewer, because each takes thousands of draws."""


class DraftedTree(Subject[PathCase]):
    """A rule for drafted paths, with the shape of their tree; `otspec.audit_paths` explains the arguments.

    Raises
    ------
    ProblemError
        If an argument is out of range, or the form of the rule cannot be told.
    """

    wording = Wording(
        case="model",
        right="texts have the target's law",
        right_so_far="the texts have the target's law on these",
        off="the law of the texts is off",
    )

    def __init__(
        self,
        rule: Any,
        shape: Shape,
        *,
        form: str | None,
        shown: Callable[[FloatArray], Any] | None,
        models: Iterable[Model] | None,
        settings: AuditSettings,
    ) -> None:
        if shown is not None and not callable(shown):
            raise ProblemError(f"shown is {shown!r}; pass a function")
        self._shape = shape
        self._shown = shown
        self.rule: PathRule = rule_of(rule, form, settings.tol, Deadline(settings.max_seconds))
        self.given = [] if models is None else self._cases(_numbered(models))
        self.label = label_of(rule)
        self.form = self.rule.form.value
        self.drafts = _described(shape)

    @property
    def has_law(self) -> bool:
        """Whether the rule gives its law; the drafts always have a known one."""
        return self.rule.has_law

    @property
    def not_enumerable(self) -> str:
        """Why an exact audit is not possible, and what would make it so."""
        return (
            f"a rule of form {self.form} cannot be enumerated here: that takes a law (form verifier, tree_law or "
            f"chains_law) and at most {MAX_TREES:,} trees that can be drafted; leave method out"
        )

    def cases_to_enumerate(self, seed: int) -> list[PathCase]:
        """The audit's own models, of every kind."""
        return self._cases(own_models(seed, self._shape.depth, (*ORDINARY, *HOSTILE)))

    def cases_to_sample(self, seed: int) -> list[PathCase]:
        """The audit's own models, of fewer kinds."""
        return self._cases(own_models(seed, self._shape.depth, SAMPLED))

    def _cases(self, named: Iterable[tuple[str, Model]]) -> list[PathCase]:
        return [case_of(name, model, self._shape, self._shown) for name, model in named]

    def enumerate(self, case: PathCase) -> Enumerated[PathCase]:
        """Sum the law of the texts over all trees that can be drafted."""
        asked = _Asked(self.rule, case)
        law = law_over(case.trees(), asked, case.model, case.length)  # type: ignore[arg-type]  # it never verifies
        tv = law.deviation / 2
        figures = PathFigures(
            name=case.name,
            vocab=case.vocab,
            tv=tv,
            tv_interval=(tv, tv),
            membership=law.mean_accepted / case.length,
            optimum=case.optimum,
            tv_tokens=tv,
            length=case.length,
        )
        return Enumerated(case, figures, law.output.ravel())

    def sampler(self, rng: np.random.Generator) -> Sampler:
        """The rule with its drafts, ready to be drawn from."""
        return PathSampler(self.rule, rng)

    def tally(self, case: PathCase, simultaneous: bool) -> PathTally:
        """A count of the draws on one model."""
        return PathTally(case, simultaneous)


@dataclass(frozen=True)
class _Asked:
    """A rule as a verifier of the trees of one case, of which only the law is asked."""

    rule: PathRule
    case: PathCase
    exchangeable: bool = False

    def verify(self, tree: Tree, rng: np.random.Generator) -> object:
        """Fail: the enumeration never draws."""
        raise NotImplementedError

    def stop_law(self, tree: Tree) -> FloatArray:
        """The law of the rule, checked: P(the accepted prefix is node v, the token after it is x), shape (N, V)."""
        return self.rule.law(self.case, tree)


def _numbered(models: Iterable[Model]) -> list[tuple[str, Model]]:
    """The user's models by their names.

    Raises
    ------
    ProblemError
        If there is none.
    """
    try:
        listed = list(models)
    except TypeError as error:
        raise ProblemError(f"models is {models!r}; pass a list of otspec.paths.Model") from error
    if not listed:
        raise ProblemError("models is empty; leave it out for the default, or pass at least one")
    return [(f"model {number}", model) for number, model in enumerate(listed)]


def _described(shape: Shape) -> str:
    """The drafts, in words."""
    if shape.independent_paths:
        return f"{shape.branching[0]} independent paths of {shape.depth} tokens"
    return f"a tree of branching {shape.branching}"
