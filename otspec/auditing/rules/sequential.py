"""The sequential tests of an audit by draws: when to draw more, and what the evidence decides."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Generic

import numpy as np

from otspec.auditing.evidence import log_average_and_product, log_tilts, mean_of
from otspec.auditing.outcome import AuditVerdict, Figures, Finding, Outcome, Test, WorstCase
from otspec.auditing.rules import findings as found
from otspec.auditing.rules.answers import Invalid, OutOfTime, Refused
from otspec.auditing.rules.case import TEXT
from otspec.auditing.rules.subject import C, Subject
from otspec.auditing.rules.tally import MAX_CELLS, Tally
from otspec.auditing.settings import AuditSettings, Progress

FIRST_LOOK = 50
"""Texts of each case before the first look."""

GROWTH = 0.4
"""Every further look is taken after this many times the draws so far."""

DOUBT = math.log(20)
"""An audit does not vouch for a rule while the evidence against it is above this."""

HYPOTHESES: dict[str, tuple[str, Callable[[Tally], float]]] = {
    "law": ("each output has law p", Tally.against_law),
    "pairs": ("consecutive outputs are independent draws from p", Tally.against_independence),
    "drafter": ("the drafts have the declared law", Tally.against_drafts),
}
"""What each test tests, by its name, and the log evidence of one case against it."""


class SequentialAudit(Generic[C]):
    """An audit by draws as it stands: more are drawn until a test rejects, or all is known, or the budget is spent.

    Each test rejects at an e-value of (number of tests) / alpha, so that all of them together raise a false alarm with
    probability at most alpha.
    """

    def __init__(self, subject: Subject[C], cases: Sequence[C], settings: AuditSettings) -> None:
        self._subject, self._settings = subject, settings
        self._refusals: list[str] = []
        self._invalid: Invalid | None = None
        """The answer that ended the audit."""
        self._late = False
        """Whether the time was up."""
        self._began = time.monotonic()
        self._number = len(cases)
        taken = self._taken(cases)
        self._cases = dict(zip((Tally(case, subject.simultaneous) for case in taken), taken, strict=True))
        self.tallies = list(self._cases)
        self.tests: tuple[Test, ...] = ()
        self.draws = 0
        chosen = {"law": True, "pairs": settings.pairs, "drafter": subject.own_drafter}
        self._names = [name for name, run in chosen.items() if run]
        self._miss = (1 - settings.confidence) / max(len(taken), 1)

    def _taken(self, cases: Sequence[C]) -> list[C]:
        """The cases that the rule takes, until it breaks on one."""
        taken: list[C] = []
        for case in cases:
            try:
                self._subject.prepare(case)
                taken.append(case)
            except Refused as refusal:
                self._refusals.append(str(refusal))
            except Invalid as invalid:
                self._invalid = invalid
                break
            except OutOfTime:
                self._late = True
                break
        return taken

    def run(self, progress: Progress) -> Outcome:
        """Draw while there is something to find out, and return the outcome."""
        while self.goes_on:
            try:
                self.draw()
            except Invalid as invalid:
                self._invalid = invalid
            except OutOfTime:  # the draws of this round are dropped: the evidence was fair at the last look
                self._late = True
            else:
                progress(self.draws, self._settings.budget)
        verdict, reason = self._judged()
        return Outcome(
            verdict=verdict,
            reason=reason,
            method="sampled",
            instances=self.figures,
            tests=self.tests,
            findings=tuple(self._findings()),
            worst=self._witness(),
            draws=self.draws,
            cases=self._number,
        )

    @property
    def figures(self) -> tuple[Figures, ...]:
        """The figures of the cases that had a look."""
        return tuple(tally.figures for tally in self.tallies if tally.figures is not None)

    @property
    def biased(self) -> list[Test]:
        """Tests of the output that reject, most evidence first; a drafter that is off proves no bias by itself."""
        rejected = [test for test in self.tests if test.rejected and test.name != "drafter"]
        return sorted(rejected, key=lambda test: -test.evidence)

    @property
    def goes_on(self) -> bool:
        """Whether there is something to find out, and the time and the budget for it."""
        ended = self._invalid is not None or self._late or bool(self.biased)
        return not ended and self._texts > 0

    @property
    def _open(self) -> list[Tally]:
        """The cases to draw from: those not known to the resolution, or all while there is doubt."""
        if any(test.evidence > DOUBT for test in self.tests if test.name != "drafter"):
            return self.tallies
        return [
            tally
            for tally in self.tallies
            if tally.figures is None or tally.figures.tv_interval[1] > self._settings.resolution
        ]

    @property
    def _texts(self) -> int:
        """Texts of each open case to draw next."""
        if not self._open:
            return 0
        most = max(tally.draws for tally in self._open)
        affordable = (self._settings.budget - self.draws) // (TEXT * len(self._open))
        return min(max(int(GROWTH * most / TEXT), FIRST_LOOK), affordable)

    def draw(self) -> None:
        """Draw one more round, and take a look at the evidence."""
        texts, tallies = self._texts, self._open
        drawn = self._subject.sample([self._cases[tally] for tally in tallies], texts)
        for tally, more in zip(tallies, drawn, strict=True):
            tally.add(more)
            tally.update(self._miss)
        self.draws += len(tallies) * texts * TEXT
        self.tests = tuple(self._test(name) for name in self._names)

    def _test(self, name: str) -> Test:
        hypothesis, against = HYPOTHESES[name]
        logs = np.array([against(tally) for tally in self.tallies])
        evidence = log_average_and_product(logs)
        if name == "law":
            tilts = np.array([log_tilts(tally.passed, *tally.case.after) for tally in self.tallies])
            shared = tilts.sum(axis=0)  # one alternative on all cases
            if shared.max() > evidence:
                logs = tilts[:, shared.argmax()]
            evidence = mean_of(evidence, mean_of(*shared))
        threshold = math.log(len(self._names) / self._settings.alpha)
        return Test(name, hypothesis, evidence, threshold, self.tallies[int(logs.argmax())].case.name)

    def _judged(self) -> tuple[AuditVerdict, str]:
        """The verdict and its reason."""
        settings = self._settings
        if self._invalid is not None:
            return AuditVerdict.NOT_LOSSLESS, f"no valid output: {found.of_invalid(self._invalid).message}"
        if self.biased:
            claim = self.biased[0].hypothesis
            return (
                AuditVerdict.NOT_LOSSLESS,
                f"{self.draws:,} draws contradict that {claim} (alpha = {settings.alpha:g})",
            )
        if self._late:
            return AuditVerdict.INCONCLUSIVE, f"the {settings.max_seconds:g} s were up {self._reached}more seconds"
        if not self.tallies:
            return AuditVerdict.INCONCLUSIVE, "the solver refuses every instance"
        if not self.figures:
            return AuditVerdict.INCONCLUSIVE, f"a budget of {settings.budget:,} draws is not enough for one look"
        if self._open:
            return AuditVerdict.INCONCLUSIVE, f"{self._reached}a larger budget, or a coarser resolution"
        fine = f"no evidence of bias in {self.draws:,} draws, and the output law is {self._known}"
        if self._refusals:
            of = f"{len(self.tallies)} of {self._number} instances"
            return AuditVerdict.INCONCLUSIVE, f"{fine} on {of}; the rule refuses the others"
        return AuditVerdict.LOSSLESS, fine

    @property
    def _known(self) -> str:
        """What is known of the output law, by the largest upper end of all intervals, in words."""
        settings, most = self._settings, max(one.tv_interval[1] for one in self.figures)
        return (
            f"within {most:.4f} of p in total variation (confidence {settings.confidence:g}, resolution "
            f"{settings.resolution:g}{self._grouped})"
        )

    @property
    def _grouped(self) -> str:
        """What is known of large vocabularies beyond their groups, in words; empty where there are none."""
        grouped = [one for one in self.figures if one.grouped]
        if not grouped:
            return ""
        most = max(one.tv_tokens for one in grouped)
        return (
            f"; of groups of tokens on {len(grouped)} of {len(self.figures)} instances, where V > {MAX_CELLS}: token "
            f"by token, within {most:.4f}"
        )

    @property
    def _reached(self) -> str:
        """How far an audit came that ended early, and what it takes, in words; what to allow for is to follow."""
        if not self.figures:
            return f"before the first look, which takes {FIRST_LOOK * TEXT * len(self.tallies):,} draws; allow for "
        # What is known shrinks as the root of the draws.
        wide = [max(tally.reach / self._settings.resolution, 1.0) for tally in self.tallies]
        most = sum(tally.draws * times**2 for tally, times in zip(self.tallies, wide, strict=True))
        seconds = (time.monotonic() - self._began) * most / self.draws
        return (
            f"after {self.draws:,} draws: the output law is known to be {self._known}; the resolution takes some "
            f"{float(f'{most:.2g}'):,.0f} draws in all, {float(f'{seconds:.2g}'):,g} s here; allow for "
        )

    def _findings(self) -> list[Finding]:
        """What the user should know beside the verdict."""
        rejected = {test.name: test for test in self.tests if test.rejected}
        findings = [] if self._invalid is None else [found.of_invalid(self._invalid)]
        if "law" in rejected:
            findings += found.of_excess(self.figures, 0.0)
            for tally in self.tallies:
                if impossible := np.flatnonzero((tally.case.p == 0) & (tally.tokens > 0)).tolist():
                    said = f"on {tally.case.name!r} it emits {tally.case.outputs} of p = 0: "
                    findings.append(Finding(said + ", ".join(map(tally.case.spelt, impossible[:5])), bias=True))
                    break
        if self.biased and self.biased[0].name == "pairs":
            message = (
                f"consecutive outputs depend on each other, most on {rejected['pairs'].largest!r}, although each by "
                "itself may have law p: is noise used twice?"
            )
            findings.append(Finding(message, bias=True))
        if "drafter" in rejected:
            message = f"the drafts do not have the declared law, as is plain on {rejected['drafter'].largest!r}"
            findings.append(Finding(message, bias=False))
        findings += found.of_mutations(self._subject.mutations)
        return findings + found.of_refusals(self._refusals, self._number)

    def _witness(self) -> WorstCase | None:
        """The case that broke the rule, or has the most evidence against it, or else is known least."""
        seed = self._settings.seed
        if (invalid := self._invalid) is not None:
            return None if invalid.case is None else found.witness(invalid.case, seed, [], invalid)
        if not self.figures:
            return None
        widest = max(self.figures, key=lambda one: one.tv_interval[1]).name
        name = self.biased[0].largest if self.biased else widest
        tally = next(tally for tally in self.tallies if tally.case.name == name)
        return found.witness(tally.case, seed, tally.tokens / tally.draws)
