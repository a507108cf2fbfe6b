"""The sequential audit of a rule that is drawn from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, NamedTuple

import numpy as np

from otspec.auditing import findings as found
from otspec.auditing.answers import Invalid, Refused
from otspec.auditing.deadline import OutOfTime
from otspec.auditing.outcome import Outcome
from otspec.auditing.settings import AuditSettings, Progress, no_progress
from otspec.auditing.subject import C, Subject
from otspec.auditing.trial import Trial


def sample_cases(
    subject: Subject[C], cases: Sequence[C], settings: AuditSettings, progress: Progress = no_progress
) -> Outcome:
    """Draw in growing rounds until a test rejects, or every case is known to the resolution, or the budget is spent.

    Each test rejects at an e-value of (number of tests) / alpha, so that all of them together raise a false alarm with
    probability at most alpha.
    """
    sampler = subject.sampler(np.random.default_rng(settings.seed))
    prepared = _prepare(subject, cases)
    tallies = [subject.tally(case, sampler.simultaneous) for case in prepared.taken]
    trial = Trial(tallies, _tests(subject, settings), settings)
    invalid, late = prepared.invalid, prepared.late
    if invalid is None and not late:
        invalid, late = trial.run(sampler, progress)
    findings = [
        *([] if invalid is None else [found.of_invalid(invalid)]),
        *trial.findings(),
        *found.of_mutations(subject.rule.mutations),
        *found.of_refusals(prepared.refusals, len(cases)),
    ]
    verdict, reason = trial.judge(invalid, late, len(prepared.refusals))
    return Outcome(
        verdict=verdict,
        reason=reason,
        method="sampled",
        instances=trial.figures,
        tests=trial.tests,
        findings=tuple(findings),
        worst=trial.witness(invalid),
        draws=trial.draws,
        cases=len(cases),
    )


class _Prepared(NamedTuple, Generic[C]):
    """The cases that the rule takes, and what ended the preparation early, if anything."""

    taken: list[C]
    refusals: list[str]
    invalid: Invalid | None
    late: bool


def _prepare(subject: Subject[C], cases: Sequence[C]) -> _Prepared[C]:
    taken: list[C] = []
    refusals: list[str] = []
    for case in cases:
        try:
            subject.prepare(case)
            taken.append(case)
        except Refused as refusal:
            refusals.append(str(refusal))
        except Invalid as invalid:
            return _Prepared(taken, refusals, invalid, late=False)
        except OutOfTime:
            return _Prepared(taken, refusals, None, late=True)
    return _Prepared(taken, refusals, None, late=False)


def _tests(subject: Subject[C], settings: AuditSettings) -> tuple[str, ...]:
    """The names of the tests that are run."""
    return "law", *(["pairs"] if settings.pairs else []), *(["drafter"] if subject.own_drafter else [])
