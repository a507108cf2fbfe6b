"""The verdict of an audit, and the sentence that says why."""

from __future__ import annotations

import math
from collections.abc import Sequence

from otspec.auditing.engines.engine import Acceptance
from otspec.auditing.engines.judge import INDEPENDENCE, LAW, Judge
from otspec.auditing.engines.outcome import Divergence, EngineOutcome, EngineVerdict, Place
from otspec.auditing.engines.settings import EngineAuditSettings
from otspec.auditing.evidence import at_look
from otspec.auditing.outcome import Finding, Test
from otspec.auditing.report import power


def conclude(
    judge: Judge,
    tests: Sequence[Test],
    looks: int,
    divergences: Sequence[Divergence],
    findings: Sequence[Finding],
    told: Acceptance | None,
    settings: EngineAuditSettings,
) -> EngineOutcome:
    """What it all came to; `findings` are those that the judge has not made."""
    places = judge.places(at_look(1 - settings.confidence, looks - 1)) if looks else ()
    found = (*judge.findings(), *findings)
    verdict, reason = _verdict(judge, tests, places, found, looks)
    return EngineOutcome(
        verdict=verdict,
        reason=reason,
        tests=tuple(tests),
        findings=found,
        compared_with=judge.compared_with,
        texts=judge.texts,
        plain_texts=judge.plain_texts,
        places=places,
        control=judge.control,
        divergences=tuple(divergences),
        acceptance=told,
        undecided=judge.undecided,
    )


def _verdict(
    judge: Judge, tests: Sequence[Test], places: Sequence[Place], findings: Sequence[Finding], looks: int
) -> tuple[EngineVerdict, str]:
    if (doubt := judge.doubt()) is not None:
        return EngineVerdict.CANNOT_TELL, doubt
    rejected = {test.name: test for test in tests if test.rejected}
    if LAW in rejected and judge.dependence() < judge.threshold:
        return EngineVerdict.NOT_LOSSLESS, _where(judge, rejected[LAW], places)
    if rejected:
        test = rejected.get(INDEPENDENCE, rejected.get(LAW, tests[0]))
        return EngineVerdict.NOT_LOSSLESS, f"{_contradicted(judge, test)}, most at {test.largest}"
    for finding in findings:
        if finding.bias:
            return EngineVerdict.NOT_LOSSLESS, finding.message
    if not looks:
        return EngineVerdict.CANNOT_TELL, "only greedy text was asked for, and nothing was found; add a temperature"
    if judge.control.caught is None:
        reason = (
            f"nothing was found, but {judge.texts:,} texts do not suffice to catch the control either "
            f"({judge.control.rule}); ask for more, or for prompts after which fewer texts are likely"
        )
        return EngineVerdict.CANNOT_TELL, reason
    first, most = (bound(place.upper for place in places) for bound in (min, max))
    size = "" if judge.control.tv is None else f", off by {judge.control.tv:.3f} a token,"
    reason = (
        f"{judge.texts:,} texts show none, and the control{size} was caught at {judge.control.caught:,}; the first "
        f"token is off by at most {first:.3f} in total variation, whole texts by at most {most:.3f}"
    )
    return EngineVerdict.NO_EVIDENCE, reason


def _contradicted(judge: Judge, test: Test) -> str:
    return f"{judge.texts:,} texts contradict that {test.hypothesis} ({_evidence(test)})"


def _evidence(test: Test) -> str:
    return f"evidence {power(test.evidence)}, rejects at {power(test.threshold)}"


def _where(judge: Judge, test: Test, places: Sequence[Place]) -> str:
    """Where the law is off: the place with the largest bound, and the first that shows it."""
    worst = max(places, key=lambda place: (place.lower, place.evidence))
    seen = [place.position for place in places if place.lower > 0 or place.evidence >= test.threshold]
    first = [place.evidence for place in places if place.position == 1]
    fine = worst.position > 1 and max(first) < math.log(10)
    since = f", first seen at position {min(seen)}" if seen and min(seen) < worst.position else ""
    return (
        f"{_contradicted(judge, test)}: position {worst.position} at {worst.sampling} is off by at least "
        f"{worst.lower:.3f} in total variation, most after {worst.prompt!r}{since}"
        + ("; nothing speaks against the first, which many engines do not speculate on" if fine else "")
    )
