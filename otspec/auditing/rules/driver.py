"""One driver for all audits of rules: exactly where the law of a subject can be enumerated, by draws where not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, NamedTuple

import numpy as np

from otspec.auditing.outcome import AuditVerdict, Figures, Outcome, WorstCase
from otspec.auditing.rules import findings as found
from otspec.auditing.rules.answers import Invalid, OutOfTime, Refused
from otspec.auditing.rules.case import Law
from otspec.auditing.rules.sequential import SequentialAudit
from otspec.auditing.rules.subject import C, Subject
from otspec.auditing.settings import AuditSettings, Progress, no_progress
from otspec.errors import ProblemError

MOST_INVALID = 3
"""Cases without a valid law that are reported one by one."""


def judge(subject: Subject[C], settings: AuditSettings, progress: Progress = no_progress) -> Outcome:
    """Audit a subject.

    All cases that the user brought have to be small enough for an exact audit; of its own the audit leaves out those
    that are too large.
    """
    if settings.method != "sampled" and subject.has_law:
        cases = subject.user_cases or subject.cases(settings.seed, sampled=False)
        listed = [case for case in cases if case.enumerable]
        if listed and len(listed) >= len(subject.user_cases):
            return enumerate_cases(subject, listed, settings, progress)
    if settings.method == "exact":
        raise ProblemError(subject.not_enumerable)
    cases = subject.user_cases or subject.cases(settings.seed, sampled=True)
    return SequentialAudit(subject, cases, settings).run(progress)


class Enumerated(NamedTuple, Generic[C]):
    """One case, enumerated."""

    case: C
    law: Law
    figures: Figures

    @classmethod
    def of(cls, case: C, law: Law) -> Enumerated[C]:
        """A case with its figures."""
        tv = float(np.abs(law.output - case.p).sum()) / 2
        measured = {
            "tv": tv,
            "tv_interval": (tv, tv),
            "tv_tokens": tv,
            "membership": law.membership,
            "step_acceptance": law.reported,
            "drafts_tv": law.drafts_tv,
        }
        return cls(case, law, case.figures(measured))


def enumerate_cases(
    subject: Subject[C], cases: Sequence[C], settings: AuditSettings, progress: Progress = no_progress
) -> Outcome:
    """Audit a rule exactly; a case on which it gives no law does not end the audit, and time does."""
    done: list[Enumerated[C]] = []
    broken: list[Invalid] = []
    refusals: list[str] = []
    late = False
    for number, case in enumerate(cases, 1):
        try:
            subject.prepare(case)
            with np.errstate(all="ignore"):
                done.append(Enumerated.of(case, subject.law(case)))
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
        *(found.of_invalid(invalid) for invalid in broken[:MOST_INVALID]),
        *found.of_excess(figures, settings.tol),
        *found.of_drafts(figures, settings.tol),
        *found.of_mutations(subject.mutations),
        *found.of_refusals(refusals, len(cases)),
    ]
    words = subject.wording
    worst = max(done, key=lambda one: one.figures.tv, default=None)
    if worst is not None and worst.figures.tv > settings.tol:
        verdict = AuditVerdict.NOT_LOSSLESS
        reason = f"{words.off} by {worst.figures.tv:.4g} in total variation on {worst.case.name!r}"
    elif broken:
        verdict = AuditVerdict.NOT_LOSSLESS
        reason = f"no valid law on {len(broken)} of {len(cases)} {words.case}s; {findings[0].message}"
    else:
        verdict, reason = _unopposed(subject, worst, len(done), len(refusals), late, len(cases), settings)
    witness = _witness(worst, broken, settings.seed)
    return Outcome(
        verdict=verdict,
        reason=reason,
        method="exact",
        instances=figures,
        findings=tuple(findings),
        worst=witness,
        cases=len(cases),
    )


def _unopposed(
    subject: Subject[C],
    worst: Enumerated[C] | None,
    done: int,
    refused: int,
    late: bool,
    cases: int,
    settings: AuditSettings,
) -> tuple[AuditVerdict, str]:
    """The verdict on a rule without evidence against it: it is lossless only if all cases were enumerated."""
    words = subject.wording
    within = "" if worst is None else f", to within {worst.figures.tv:.1g} in total variation"
    if late:
        return AuditVerdict.INCONCLUSIVE, (
            f"the {settings.max_seconds:g} s were up after {done + refused} of {cases} {words.case}s: "
            f"{words.right_so_far.format(done=done)}{within}; allow for more seconds"
        )
    if worst is None:
        return AuditVerdict.INCONCLUSIVE, f"the solver refuses every {words.case}"
    if refused:
        return AuditVerdict.INCONCLUSIVE, (
            f"{words.right} on {done} of {cases} {words.case}s{within}, and the rule refuses the other {refused}; "
            f"bring {words.case}s that it takes"
        )
    return AuditVerdict.LOSSLESS, f"{words.right} on every {words.case}{within}"


def _witness(worst: Enumerated[C] | None, broken: Sequence[Invalid], seed: int) -> WorstCase | None:
    if broken:
        assert broken[0].case is not None, "a rule that gives its law is called on one case at a time"
        return found.witness(broken[0].case, seed, [], broken[0])
    return None if worst is None else found.witness(worst.case, seed, worst.law.output)
