"""The sequential test of a rule that can only be drawn from."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from otspec.auditing import findings as found
from otspec.auditing.cases import Case
from otspec.auditing.evidence import at_look, log_average_and_product
from otspec.auditing.forms import BatchedRule, Invalid, Refused, Rule
from otspec.auditing.report import Figures, Finding, Outcome, Progress, Settings, Test, Verdict, Witness
from otspec.auditing.sampling import TEXT, Sampler
from otspec.auditing.tally import Tally

FIRST_LOOK = 50
"""Texts of each instance before the first look; every look doubles what is drawn."""

DOUBT = math.log(20)
"""An audit does not vouch for a rule while the evidence against it is above this."""


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
    taken, refusals = _taken(rule, cases)
    custom = any(case.drafted is None for case in taken)
    names = ("law", *(["pairs"] if pairs else []), *(["drafter"] if custom else []))
    trial = Trial([Tally(case, sampler.simultaneous) for case in taken], names, settings)
    invalid = None
    while trial.tallies and trial.goes_on:
        try:
            trial.draw(sampler)
        except Invalid as error:
            invalid = error
            break
        progress(trial.draws, settings.draws)
    findings = [
        *([] if invalid is None else [found.of_invalid(invalid)]),
        *trial.findings(),
        *found.of_mutations(rule.mutations),
        *found.of_refusals(refusals, len(cases)),
    ]
    verdict, reason = trial.judge(invalid)
    worst = trial.witness(invalid)
    return Outcome(verdict, reason, "sampled", trial.figures, trial.tests, tuple(findings), worst, trial.draws)


def _taken(rule: Rule | BatchedRule, cases: Sequence[Case]) -> tuple[list[Case], list[str]]:
    taken, refusals = [], []
    for case in cases:
        try:
            rule.prepare(case)
            taken.append(case)
        except Refused as refusal:
            refusals.append(str(refusal))
    return taken, refusals


class Trial:
    """A sequential audit as it stands."""

    def __init__(self, tallies: list[Tally], names: tuple[str, ...], settings: Settings) -> None:
        self.tallies = tallies
        self.tests: tuple[Test, ...] = ()
        self.figures: tuple[Figures, ...] = ()
        self.draws = 0
        self._names = names
        self._settings = settings
        self._looks = 0

    @property
    def goes_on(self) -> bool:
        """Whether there is something to find out, and the budget for it."""
        return self._next > 0 and not self.biased and not self.resolved

    @property
    def _next(self) -> int:
        """Texts of each instance to draw next: as many as so far, or what the budget leaves."""
        share = TEXT * len(self.tallies)
        return min(max(self.draws // share, FIRST_LOOK), (self._settings.draws - self.draws) // share)

    @property
    def biased(self) -> list[Test]:
        """Tests of the output that reject; drafts of another law than declared do not make a rule lossy by themselves."""
        return [test for test in self.tests if test.rejected and test.name != "drafter"]

    @property
    def resolved(self) -> bool:
        """Whether every instance is known to the resolution, with no doubt left."""
        return (
            bool(self.figures)
            and max(one.tv_interval[1] for one in self.figures) <= self._settings.resolution
            and all(test.evidence <= DOUBT for test in self.tests if test.name != "drafter")
        )

    def draw(self, sampler: Sampler) -> None:
        """One more round, and a look.

        Raises
        ------
        Invalid
            If the rule or the drafter gives nothing valid.
        """
        texts = self._next
        for tally, more in zip(self.tallies, sampler.draw([tally.case for tally in self.tallies], texts), strict=True):
            tally.add(more)
        self.draws += len(self.tallies) * texts * TEXT
        self.tests = tuple(self._test(name) for name in self._names)
        miss = at_look((1 - self._settings.confidence) / len(self.tallies), self._looks)
        self.figures = tuple(tally.figures(miss) for tally in self.tallies)
        self._looks += 1

    def _test(self, name: str) -> Test:
        logs = np.array([AGAINST[name](tally) for tally in self.tallies])
        threshold = math.log(len(self._names) / self._settings.alpha)
        worst = self.tallies[int(logs.argmax())].case.name
        return Test(name, HYPOTHESES[name], log_average_and_product(logs), threshold, worst)

    def judge(self, invalid: Invalid | None) -> tuple[Verdict, str]:
        """The verdict, and why."""
        settings = self._settings
        if invalid is not None:
            return Verdict.NOT_LOSSLESS, f"no valid output: {found.of_invalid(invalid).message}"
        if self.biased:
            claims = " and that ".join(test.hypothesis for test in self.biased)
            return Verdict.NOT_LOSSLESS, f"{self.draws:,} draws contradict that {claims} (alpha = {settings.alpha:g})"
        if not self.tallies:
            return Verdict.INCONCLUSIVE, "the solver refuses every instance"
        if not self.figures:
            return Verdict.INCONCLUSIVE, f"draws = {settings.draws:,} is not enough to look once; allow for more"
        most = max(one.tv_interval[1] for one in self.figures)
        if self.resolved:
            return Verdict.LOSSLESS, (
                f"no evidence against it in {self.draws:,} draws, and the output law is within {most:.4f} of p on every "
                f"instance, in total variation (confidence {settings.confidence:g}, resolution {settings.resolution:g})"
            )
        if self.rejected:
            return (
                Verdict.INCONCLUSIVE,
                "the drafts do not have the declared law; mend the drafter, or the scheme, first",
            )
        return Verdict.INCONCLUSIVE, (
            f"after {self.draws:,} draws the output law is known to be within {most:.4f} of p in total variation, and "
            f"the resolution is {settings.resolution:g}; allow for more draws, or a coarser resolution"
        )

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
        elif "pairs" in rejected:
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
            case = invalid.case or self.tallies[0].case
            return found.witness(case, seed, [], invalid)
        if not self.figures:
            return None
        widest = max(self.figures, key=lambda one: one.tv_interval[1]).name
        name = self.biased[0].largest if self.biased else widest
        tally = next(tally for tally in self.tallies if tally.case.name == name)
        return found.witness(tally.case, seed, tally.tokens / tally.draws)


HYPOTHESES = {
    "law": "each output has law p",
    "pairs": "consecutive outputs are independent draws from p",
    "drafter": "the drafts have the declared law",
}
AGAINST: dict[str, Callable[[Tally], float]] = {
    "law": Tally.against_law,
    "pairs": Tally.against_independence,
    "drafter": Tally.against_drafts,
}
