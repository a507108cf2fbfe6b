"""The sequential test of a rule that can only be drawn from."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from otspec.auditing import findings as found
from otspec.auditing.answers import Invalid, Refused
from otspec.auditing.calls import BatchedRule, Rule
from otspec.auditing.cases import Case, Tried
from otspec.auditing.counts import MAX_CELLS
from otspec.auditing.deadline import OutOfTime
from otspec.auditing.evidence import log_average_and_product
from otspec.auditing.report import AuditVerdict, Figures, Finding, Outcome, Progress, Settings, Test, Witness
from otspec.auditing.sampling import TEXT, Sampler
from otspec.auditing.tally import Tally
from otspec.laws import IntArray

FIRST_LOOK = 50
"""Texts of each instance before the first look."""

GROWTH = 0.4
"""Every further look is taken after so many times the draws so far."""

DOUBT = math.log(20)
"""An audit does not vouch for a rule while the evidence against it is above this."""


class Tallied(Protocol):
    """The draws of one instance, and what they say."""

    figures: Figures | None
    """As of the last look."""
    tokens: IntArray
    draws: int

    @property
    def case(self) -> Tried:
        """The instance."""

    def add(self, texts: Any) -> None:
        """Count what the sampler has drawn."""

    def look(self, miss: float) -> None:
        """Bring the figures up to date; their intervals hold at all looks together, but with probability `miss`."""

    def against_law(self) -> float:
        """Log evidence that the outputs do not have the law that they should."""

    def against_independence(self) -> float:
        """Log evidence that they depend on each other."""

    def against_drafts(self) -> float:
        """Log evidence that the drafts do not have theirs."""

    def witness(self, seed: int) -> Witness:
        """The instance, with the shares of the draws."""


def sample_all(
    rule: Rule | BatchedRule,
    sampler: Sampler,
    cases: Sequence[Case],
    pairs: bool,
    settings: Settings,
    progress: Progress,
) -> Outcome:
    """Draw in rounds that double, until a test rejects, or every instance is resolved, or the budget is spent.

    Each test rejects at an e-value of (number of tests) / alpha, so that all of them together raise a false alarm with
    probability at most alpha.
    """
    taken: list[Case] = []
    refusals: list[str] = []
    invalid: Invalid | None = None
    late = False
    try:
        for case in cases:
            try:
                rule.prepare(case)
                taken.append(case)
            except Refused as refusal:
                refusals.append(str(refusal))
    except Invalid as error:
        invalid = error
    except OutOfTime:
        late = True
    custom = any(case.drafted is None for case in taken)
    names = ("law", *(["pairs"] if pairs else []), *(["drafter"] if custom else []))
    trial = Trial([Tally(case, sampler.simultaneous) for case in taken], names, settings)
    if invalid is None and not late:
        invalid, late = trial.run(sampler, progress)
    findings = [
        *([] if invalid is None else [found.of_invalid(invalid)]),
        *trial.findings(),
        *found.of_mutations(rule.mutations),
        *found.of_refusals(refusals, len(cases)),
    ]
    verdict, reason = trial.judge(invalid, late, len(refusals))
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


class Trial:
    """A sequential audit as it stands."""

    def __init__(self, tallies: Sequence[Tallied], names: tuple[str, ...], settings: Settings) -> None:
        self.tallies = tallies
        self.tests: tuple[Test, ...] = ()
        self.draws = 0
        self._names = names
        self._settings = settings
        self._miss = (1 - settings.confidence) / max(len(tallies), 1)

    @property
    def figures(self) -> tuple[Figures, ...]:
        """What has been measured so far."""
        return tuple(tally.figures for tally in self.tallies if tally.figures is not None)

    @property
    def biased(self) -> list[Test]:
        """Tests of the output that reject, most evidence first; a drafter that is off proves no bias by itself."""
        rejected = [test for test in self.tests if test.rejected and test.name != "drafter"]
        return sorted(rejected, key=lambda test: -test.evidence)

    @property
    def resolved(self) -> bool:
        """Whether every instance is known to the resolution, with no doubt left."""
        return not self._open

    @property
    def goes_on(self) -> bool:
        """Whether there is something to find out, and the budget for it."""
        return self._texts > 0 and not self.biased and not self.resolved

    @property
    def _open(self) -> Sequence[Tallied]:
        """Instances to draw from: those not known to the resolution, or all while there is doubt."""
        if any(test.evidence > DOUBT for test in self.tests if test.name != "drafter"):
            return self.tallies
        return [
            tally
            for tally in self.tallies
            if tally.figures is None or tally.figures.tv_interval[1] > self._settings.resolution
        ]

    @property
    def _texts(self) -> int:
        """Texts of each open instance to draw next."""
        if not self._open:
            return 0
        most = max(tally.draws for tally in self._open)
        affordable = (self._settings.budget - self.draws) // (TEXT * len(self._open))
        return min(max(int(GROWTH * most / TEXT), FIRST_LOOK), affordable)

    def run(self, sampler: Sampler, progress: Progress) -> tuple[Invalid | None, bool]:
        """Draw while there is something to find out; the answer that was none, if any, and whether time was up."""
        while self.tallies and self.goes_on:
            try:
                self.draw(sampler)
            except Invalid as error:
                return error, False
            except OutOfTime:  # the draws of this round are dropped: the evidence was fair at the last look
                return None, True
            progress(self.draws, self._settings.budget)
        return None, False

    def draw(self, sampler: Sampler) -> None:
        """One more round, and a look.

        Raises
        ------
        Invalid
            If the rule or the drafter gives nothing valid.
        """
        texts, tallies = self._texts, self._open
        for tally, more in zip(tallies, sampler.draw([tally.case for tally in tallies], texts), strict=True):
            tally.add(more)
            tally.look(self._miss)
        self.draws += len(tallies) * texts * TEXT
        self.tests = tuple(self._test(name) for name in self._names)

    def _test(self, name: str) -> Test:
        logs = np.array([AGAINST[name](tally) for tally in self.tallies])
        threshold = math.log(len(self._names) / self._settings.alpha)
        worst = self.tallies[int(logs.argmax())].case.name
        return Test(name, HYPOTHESES[name], log_average_and_product(logs), threshold, worst)

    def judge(self, invalid: Invalid | None, late: bool, refused: int) -> tuple[AuditVerdict, str]:
        """The verdict, and why: an output that was none, time that was up, and instances that the rule refuses."""
        settings = self._settings
        if invalid is not None:
            return AuditVerdict.NOT_LOSSLESS, f"no valid output: {found.of_invalid(invalid).message}"
        if self.biased:
            claim = self.biased[0].hypothesis
            return (
                AuditVerdict.NOT_LOSSLESS,
                f"{self.draws:,} draws contradict that {claim} (alpha = {settings.alpha:g})",
            )
        if late:
            return AuditVerdict.INCONCLUSIVE, f"the {settings.max_seconds:g} s were up {self._reached}"
        if not self.tallies:
            return AuditVerdict.INCONCLUSIVE, "the solver refuses every instance"
        if not self.figures:
            return AuditVerdict.INCONCLUSIVE, f"a budget of {settings.budget:,} draws is not enough to look once"
        known = (
            f"within {self._most:.4f} of p in total variation (confidence {settings.confidence:g}, resolution "
            f"{settings.resolution:g}{self._grouped})"
        )
        if not self.resolved:
            return AuditVerdict.INCONCLUSIVE, (
                f"after {self.draws:,} draws the output law is known to be {known}; allow for a larger budget, or a "
                "coarser resolution"
            )
        fine = f"no evidence of bias in {self.draws:,} draws, and the output law is {known}"
        if refused:
            of = f"{len(self.tallies)} of {len(self.tallies) + refused} instances"
            return AuditVerdict.INCONCLUSIVE, f"{fine} on {of}; the rule refuses the others"
        return AuditVerdict.LOSSLESS, fine

    @property
    def _most(self) -> float:
        """Upper end of the intervals of all instances."""
        return max(one.tv_interval[1] for one in self.figures)

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
        """How far an audit came whose time is up, in words."""
        if self.figures:
            return (
                f"after {self.draws:,} draws: the output law is known to be within {self._most:.4f} of p in total "
                f"variation, and the resolution is {self._settings.resolution:g}{self._grouped}; allow for more seconds"
            )
        first = FIRST_LOOK * TEXT * len(self.tallies)
        return f"before the first look, which takes {first:,} draws; allow for more seconds"

    def findings(self) -> list[Finding]:
        """What the draws say beside the verdict."""
        rejected = {test.name: test for test in self.tests if test.rejected}
        findings = []
        if "law" in rejected:
            findings += found.of_excess(self.figures, 0.0)
            for tally in self.tallies:
                if impossible := np.flatnonzero((tally.case.p == 0) & (tally.tokens > 0)).tolist():
                    findings.append(
                        Finding(f"on {tally.case.name!r} it emits tokens of p = 0: {impossible[:5]}", bias=True)
                    )
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
        return findings

    def witness(self, invalid: Invalid | None) -> Witness | None:
        """The instance that broke the rule, or speaks against it most, or else is known least."""
        seed = self._settings.seed
        if invalid is not None:
            return None if invalid.case is None else found.witness(invalid.case, seed, [], invalid)
        if not self.figures:
            return None
        widest = max(self.figures, key=lambda one: one.tv_interval[1]).name
        name = self.biased[0].largest if self.biased else widest
        tally = next(tally for tally in self.tallies if tally.case.name == name)
        return tally.witness(seed)


HYPOTHESES = {
    "law": "each output has law p",
    "pairs": "consecutive outputs are independent draws from p",
    "drafter": "the drafts have the declared law",
}
AGAINST: dict[str, Callable[[Tallied], float]] = {
    "law": lambda tally: tally.against_law(),
    "pairs": lambda tally: tally.against_independence(),
    "drafter": lambda tally: tally.against_drafts(),
}
