"""The exact law of the texts that a rule for drafted paths makes, by enumeration of every drafted tree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from otspec.auditing import findings as found
from otspec.auditing.answers import Invalid
from otspec.auditing.deadline import OutOfTime
from otspec.auditing.paths.cases import PathCase
from otspec.auditing.paths.report import PathFigures
from otspec.auditing.paths.rules import PathRule
from otspec.auditing.report import AuditVerdict, Outcome, Progress, Settings, Witness
from otspec.laws import FloatArray
from otspec.paths import Tree
from otspec.verification.reference.enumeration import law_over


class Enumerated(NamedTuple):
    """One model, done."""

    case: PathCase
    figures: PathFigures
    output: FloatArray
    """Exact law of the texts, shape (V**(L + 1),)."""


def enumerate_paths(rule: PathRule, cases: Sequence[PathCase], settings: Settings, progress: Progress) -> Outcome:
    """Audit a rule exactly; a model on which it gives no law does not end the audit, and time does."""
    done: list[Enumerated] = []
    broken: list[Invalid] = []
    late = False
    for number, case in enumerate(cases, 1):
        try:
            with np.errstate(all="ignore"):
                done.append(_enumerate(rule, case))
        except Invalid as invalid:
            broken.append(invalid)
        except OutOfTime:
            late = True
            break
        progress(number, len(cases))
    figures = tuple(one.figures for one in done)
    findings = [*(found.of_invalid(invalid) for invalid in broken[:3]), *found.of_excess(figures, settings.tol)]
    worst = max(done, key=lambda one: one.figures.tv, default=None)
    within = "" if worst is None else f", to within {worst.figures.tv:.1g} in total variation"
    if worst is not None and worst.figures.tv > settings.tol:
        verdict = AuditVerdict.NOT_LOSSLESS
        reason = f"the law of the texts is off by {worst.figures.tv:.4g} in total variation on {worst.case.name!r}"
    elif broken:
        verdict = AuditVerdict.NOT_LOSSLESS
        reason = f"no valid law on {len(broken)} of {len(cases)} models; {findings[0].message}"
    elif late:
        verdict = AuditVerdict.INCONCLUSIVE
        reason = (
            f"the {settings.max_seconds:g} s were up after {len(done)} of {len(cases)} models: the texts have the "
            f"target's law on these{within}; allow for more seconds"
        )
    else:
        verdict = AuditVerdict.LOSSLESS
        reason = f"texts have the target's law on every model{within}"
    witness = _witness(worst, broken, settings.seed)
    return Outcome(verdict, reason, "exact", figures, (), tuple(findings), witness, cases=len(cases))


def _witness(worst: Enumerated | None, broken: Sequence[Invalid], seed: int) -> Witness | None:
    if broken:
        assert broken[0].case is not None, "rules for paths name the case"
        return found.witness(broken[0].case, seed, [], broken[0])
    return None if worst is None else found.witness(worst.case, seed, worst.output)


@dataclass(frozen=True)
class _Asked:
    """A rule as a verifier of the trees of one case."""

    rule: PathRule
    case: PathCase
    exchangeable: bool = False

    def verify(self, tree: Tree, rng: np.random.Generator) -> object:
        """Not asked for."""
        raise NotImplementedError

    def stop_law(self, tree: Tree) -> FloatArray:
        """What the rule says, checked."""
        return self.rule.law(self.case, tree)


def _enumerate(rule: PathRule, case: PathCase) -> Enumerated:
    trees: Iterator[tuple[float, Tree]] = case.trees()
    law = law_over(trees, _Asked(rule, case), case.model, case.length)  # type: ignore[arg-type]  # it never verifies
    tv = law.deviation / 2
    figures = PathFigures(
        name=case.name,
        vocab=case.vocab,
        draws=0,
        tv=tv,
        tv_interval=(tv, tv),
        membership=law.mean_accepted / case.length,
        membership_error=0.0,
        step_acceptance=None,
        optimum=None if case.bound is None else case.bound / case.length,
        optimum_iid=None,
        grouped=False,
        tv_tokens=tv,
        drafts_tv=None,
        length=case.length,
    )
    return Enumerated(case, figures, law.output.ravel())
