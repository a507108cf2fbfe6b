"""The exact output law of a rule that gives its conditional laws, by enumeration of every tuple of drafts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from otspec.auditing import findings as found
from otspec.auditing.answers import Invalid, Refused
from otspec.auditing.calls import Rule
from otspec.auditing.cases import Case
from otspec.auditing.deadline import OutOfTime
from otspec.auditing.optima import optimum_iid, optimum_of
from otspec.auditing.report import AuditVerdict, Figures, Outcome, Progress, Settings, Witness
from otspec.laws import FloatArray

MAX_TUPLES = 5_000
"""Tuples of drafts of an instance that are listed; a rule is called for each."""


class Enumerated(NamedTuple):
    """One instance, done."""

    case: Case
    figures: Figures
    output: FloatArray
    """Exact law of the output, shape (V,)."""


def enumerable(case: Case) -> bool:
    """Whether the drafts have a law whose tuples are few enough to be listed."""
    return case.drafted is not None and case.drafted.support_size() <= MAX_TUPLES


def enumerate_all(rule: Rule, cases: Sequence[Case], settings: Settings, progress: Progress) -> Outcome:
    """Audit a rule exactly; an instance on which it gives no law does not end the audit, and time does."""
    done: list[Enumerated] = []
    broken: list[Invalid] = []
    refusals: list[str] = []
    late = False
    for number, case in enumerate(cases, 1):
        try:
            rule.prepare(case)
            with np.errstate(all="ignore"):
                done.append(enumerate_case(rule, case))
        except Invalid as invalid:
            broken.append(invalid)
        except Refused as refusal:
            refusals.append(str(refusal))
        except OutOfTime:
            late = True
            break
        progress(number, len(cases))
    figures = tuple(one.figures for one in done)
    findings = [
        *(found.of_invalid(invalid) for invalid in broken[:3]),
        *found.of_excess(figures, settings.tol),
        *found.of_drafts(figures, settings.tol),
        *found.of_mutations(rule.mutations),
        *found.of_refusals(refusals, len(cases)),
    ]
    worst = max(done, key=lambda one: one.figures.tv, default=None)
    if worst is not None and worst.figures.tv > settings.tol:
        off = f"the output law is off p by {worst.figures.tv:.4g} in total variation on {worst.case.name!r}"
        verdict, reason = AuditVerdict.NOT_LOSSLESS, off
    elif broken:
        reason = f"no valid law on {len(broken)} of {len(cases)} instances; {findings[0].message}"
        verdict = AuditVerdict.NOT_LOSSLESS
    else:
        verdict, reason = _judge(worst, len(done), refusals, late, len(cases), settings)
    witness = _witness(worst, broken, settings.seed)
    return Outcome(verdict, reason, "exact", figures, (), tuple(findings), witness, cases=len(cases))


def _judge(
    worst: Enumerated | None, done: int, refusals: Sequence[str], late: bool, cases: int, settings: Settings
) -> tuple[AuditVerdict, str]:
    """Of a rule that nothing speaks against: what is said of all instances is said only if all were enumerated."""
    within = "" if worst is None else f", to within {worst.figures.tv:.1g} in total variation"
    if late:
        return AuditVerdict.INCONCLUSIVE, (
            f"the {settings.max_seconds:g} s were up after {done + len(refusals)} of {cases} instances: the output law "
            f"is p on {done}{within}; allow for more seconds"
        )
    if worst is None:
        return AuditVerdict.INCONCLUSIVE, "the solver refuses every instance"
    if refusals:
        return AuditVerdict.INCONCLUSIVE, (
            f"the output law is p on {done} of {cases} instances{within}, and the rule refuses the other "
            f"{len(refusals)}; bring instances that it takes"
        )
    return AuditVerdict.LOSSLESS, f"the output law is p on every instance{within}"


def _witness(worst: Enumerated | None, broken: Sequence[Invalid], seed: int) -> Witness | None:
    if broken:
        assert broken[0].case is not None
        return found.witness(broken[0].case, seed, [], broken[0])
    return None if worst is None else found.witness(worst.case, seed, worst.output)


def enumerate_case(rule: Rule, case: Case) -> Enumerated:
    """Sum a rule over all tuples of drafts of one instance.

    Raises
    ------
    Invalid
        If the rule gives no law for some drafts.
    """
    assert case.drafted is not None
    output = np.zeros(case.vocab)
    membership = 0.0
    steps: float | None = 0.0
    for drafts, probability in zip(*case.drafted.support(), strict=True):
        law, accepted = rule.law(case, drafts)
        output += probability * law
        membership += probability * float(law[np.unique(drafts)].sum())
        steps = None if steps is None or accepted is None else steps + probability * accepted
    tv = float(np.abs(output - case.p).sum()) / 2
    figures = Figures(
        name=case.name,
        vocab=case.vocab,
        draws=0,
        tv=tv,
        tv_interval=(tv, tv),
        membership=float(membership),
        membership_error=0.0,
        step_acceptance=steps,
        optimum=optimum_of(case),
        optimum_iid=optimum_iid(case),
        grouped=False,
        tv_tokens=tv,
        drafts_tv=_drafts_tv(case),
    )
    return Enumerated(case, figures, output)


def _drafts_tv(case: Case) -> float:
    """Total variation of the law that the drafts come from to the declared one."""
    if case.declared is case.drafted:
        return 0.0
    assert case.drafted is not None
    drafts, probabilities = case.drafted.support()
    return float(np.maximum(probabilities - case.declared.prob(drafts), 0.0).sum())
