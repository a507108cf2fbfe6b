"""One driver for all audits: it judges a subject exactly where its law can be enumerated, and by draws where not."""

from __future__ import annotations

from otspec.auditing.exact import enumerate_cases
from otspec.auditing.outcome import Outcome
from otspec.auditing.sampled import sample_cases
from otspec.auditing.settings import AuditSettings, Progress, no_progress
from otspec.auditing.subject import C, Subject
from otspec.errors import ProblemError


def judge(subject: Subject[C], settings: AuditSettings, progress: Progress = no_progress) -> Outcome:
    """Audit a subject.

    All cases that the user brought have to be small enough for an exact audit; of its own the audit leaves out those
    that are too large.

    Raises
    ------
    ProblemError
        If an exact audit is asked for, and not possible; or if no case of the audit's own suits the drafts.
    """
    if settings.method != "sampled" and subject.has_law:
        cases = subject.given or subject.cases_to_enumerate(settings.seed)
        listed = [case for case in cases if case.enumerable]
        if listed and len(listed) >= len(subject.given):
            return enumerate_cases(subject, listed, settings, progress)
    if settings.method == "exact":
        raise ProblemError(subject.not_enumerable)
    cases = subject.given or subject.cases_to_sample(settings.seed)
    return sample_cases(subject, cases, settings, progress)
