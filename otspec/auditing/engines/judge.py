"""What the two ways to judge texts have in common, with the exact law and by texts without drafts, and the verdict."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from otspec.auditing.engines.engine import Acceptance, Sampling, Text
from otspec.auditing.engines.format_checks import Ends, LogProbabilities
from otspec.auditing.engines.independence import Coincidences
from otspec.auditing.engines.report import Control, Divergence, EngineOutcome, EngineVerdict, Place
from otspec.auditing.engines.settings import EngineAuditSettings
from otspec.auditing.evidence import at_look, log_average_and_product
from otspec.auditing.outcome import Finding, Test
from otspec.auditing.report import power

LAW, INDEPENDENCE = "law", "independence"
TESTS = (LAW, INDEPENDENCE)
"""Names of the tests, which share alpha."""

FIRST_BATCH = 32
"""Texts of each cell that the first look is at; each following look has as many as all before, up to a batch."""


class PromptCell(NamedTuple):
    """One prompt under one sampling."""

    number: int
    prompt: str
    sampling: Sampling

    def __str__(self) -> str:
        return f"{self.sampling}, after {self.prompt!r}"


class Batch(NamedTuple):
    """What was drawn in one cell at one look."""

    drafted: list[Text]
    plain: list[Text]
    control: list[Text]
    """Texts of the control; none where it makes its own."""


def next_batch(done: int, most: int, batch: int) -> int:
    """How many texts of a cell the next look has, after so many, if there are to be `most`."""
    return min(max(done, FIRST_BATCH), batch, most - done)


class Judge(ABC):
    """Collects texts of cells, and says at every look what they show; `ends` end a text, if that is known."""

    compared_with: str
    """In words: what texts with drafts are compared with."""

    def __init__(self, cells: Sequence[PromptCell], settings: EngineAuditSettings, ends: frozenset[int] | None) -> None:
        self.cells, self.settings = cells, settings
        self.threshold = math.log(len(TESTS) / settings.alpha)
        self.texts = self.plain_texts = 0
        self.undecided = 0
        self.ends, self.plain_ends = (Ends(settings.length, ends) for _ in range(2))
        self.logprobs = LogProbabilities(settings.tolerance)
        self.coincidences = [Coincidences() for _ in cells]
        self.caught: int | None = None
        """How many texts there were when the control was caught."""

    @abstractmethod
    def control_sampling(self, sampling: Sampling) -> Sampling | None:
        """Where the control is another temperature of the plain engine: which; None if no more of it is needed."""

    def add(self, cell: PromptCell, batch: Batch) -> None:
        """Take in what was drawn."""
        self.texts += len(batch.drafted)
        self.plain_texts += len(batch.plain)
        self.ends.add(cell.prompt, batch.drafted)
        self.plain_ends.add(cell.prompt, batch.plain)
        self.compare(cell, batch)

    @abstractmethod
    def compare(self, cell: PromptCell, batch: Batch) -> None:
        """Hold texts with drafts against what they should be, and the control as well."""

    @abstractmethod
    def update(self) -> tuple[Test, ...]:
        """The tests as of now; the control is looked at, too."""

    def dependence(self) -> float:
        """Evidence that requests are not independent, whatever their law: it goes before a law that looks wrong."""
        return log_average_and_product(np.array([one.evidence() for one in self.coincidences]))

    @abstractmethod
    def places(self, miss: float) -> tuple[Place, ...]:
        """Figures by position, whose bounds hold together but with probability `miss`."""

    @property
    @abstractmethod
    def control(self) -> Control:
        """What became of the biased rule."""

    @abstractmethod
    def doubt(self) -> str | None:
        """Why nothing can be concluded, if texts without drafts are not what they are taken for."""

    def findings(self) -> list[Finding]:
        """What texts show whatever their law."""
        return [*self.ends.findings(self.plain_ends), *self.logprobs.findings()]

    def by_sampling(self) -> dict[Sampling, list[PromptCell]]:
        """The cells of each sampling."""
        found: dict[Sampling, list[PromptCell]] = {}
        for cell in self.cells:
            found.setdefault(cell.sampling, []).append(cell)
        return found

    def test(self, name: str, hypothesis: str, evidence: float, largest: str) -> Test:
        """A test at this audit's threshold."""
        return Test(name, hypothesis, evidence, self.threshold, largest)


def conclude(
    judge: Judge,
    tests: Sequence[Test],
    looks: int,
    divergences: Sequence[Divergence],
    findings: Sequence[Finding],
    acceptance: Acceptance | None,
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
        acceptance=acceptance,
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
        test = rejected.get(INDEPENDENCE) or rejected[LAW]
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
    known = worst.lower >= 0.0005
    size = f" by at least {worst.lower:.3f} in total variation" if known else ", by how much is not known yet"
    return (
        f"{_contradicted(judge, test)}: position {worst.position} at {worst.sampling} is off{size}, "
        f"most after {worst.prompt!r}{since}"
        + ("; nothing speaks against the first, which many engines do not speculate on" if fine else "")
    )
