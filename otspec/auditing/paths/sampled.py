"""Drawing texts from a rule for drafted paths, and what they say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from otspec.auditing import findings as found
from otspec.auditing.counts import Counts
from otspec.auditing.paths.cases import PathCase
from otspec.auditing.paths.report import PathFigures
from otspec.auditing.paths.rules import PathRule
from otspec.auditing.report import Figures, Outcome, Progress, Settings, Witness
from otspec.auditing.sampled import Trial
from otspec.auditing.sampling import TEXT
from otspec.laws import IntArray


class Verified(NamedTuple):
    """Steps of one model, two after each other in a row, all from the same place."""

    texts: IntArray
    """Shape (rows, 2): the number of the text of L + 1 tokens that each step begins and the target goes on with."""
    accepted: IntArray
    """Shape (rows, 2): how many tokens are accepted."""
    level: IntArray
    """Shape (rows, 2): a level, 0 to L - 1, drawn for each step."""


class PathSampler:
    """A rule and its drafts, ready to be drawn from; both go on where they stopped."""

    simultaneous = False

    def __init__(self, rule: PathRule, rng: np.random.Generator) -> None:
        self._rule = rule
        self._rng = rng
        self._own = rng.spawn(1)[0]
        """Of drafts, and of what follows the rule's tokens: a rule may spoil the generator that it is handed."""

    def draw(self, cases: Sequence[PathCase], texts: int) -> list[Verified]:
        """So many rows of each case.

        Raises
        ------
        Invalid
            If the rule gives no verdict.
        """
        with np.errstate(all="ignore"):
            return [self._rows(case, texts) for case in cases]

    def _rows(self, case: PathCase, rows: int) -> Verified:
        numbers, accepted = (np.empty((rows, TEXT), dtype=np.int64) for _ in range(2))
        for row in range(rows):
            self._rule.start(self._rng)
            for step in range(TEXT):
                tree = case.drawn(self._own)
                node, token = self._rule.verdict(case, tree, self._rng)
                numbers[row, step] = case.text((*tree.prefix(node), token), self._own)
                accepted[row, step] = tree.depth[node]
        return Verified(numbers, accepted, self._own.integers(case.length, size=(rows, TEXT)))


class PathTally(Counts):
    """What has been drawn on one model; a hit is a drawn level that is accepted, which happens to accepted / L."""

    def __init__(self, case: PathCase) -> None:
        super().__init__(case.p, case.weighed, simultaneous=False)
        self.case = case
        self.figures: Figures | None = None
        self.accepted = 0
        """Tokens in all."""

    @property
    def optimum(self) -> float | None:
        """The largest mean share of accepted levels of a lossless rule."""
        return None if self.case.bound is None else self.case.bound / self.case.length

    def add(self, texts: Verified) -> None:
        """Count more draws."""
        self.count(texts.texts, texts.level < texts.accepted)
        self.accepted += int(texts.accepted.sum())

    def against_drafts(self) -> float:
        """The drafts are the audit's own."""
        return 0.0

    def look(self, miss: float) -> None:
        """Bring the figures up to date."""
        tv, interval, _, error, tv_tokens = self.measure(miss)
        self.figures = PathFigures(
            name=self.case.name,
            vocab=self.case.vocab,
            draws=self.draws,
            tv=tv,
            tv_interval=interval,
            membership=self.accepted / self.draws / self.case.length,
            membership_error=error,
            step_acceptance=None,
            optimum=self.optimum,
            optimum_iid=None,
            grouped=self.grouped,
            tv_tokens=tv_tokens,
            drafts_tv=None,
            length=self.case.length,
        )

    def witness(self, seed: int) -> Witness:
        """The model, with the shares of the draws."""
        return found.witness(self.case, seed, self.tokens / self.draws)


def sample_paths(
    rule: PathRule, cases: Sequence[PathCase], pairs: bool, settings: Settings, progress: Progress
) -> Outcome:
    """Draw in rounds until a test rejects, or every model is resolved, or the budget is spent."""
    sampler = PathSampler(rule, np.random.default_rng(settings.seed))
    trial = Trial([PathTally(case) for case in cases], ("law", *(["pairs"] if pairs else [])), settings)
    invalid, late = trial.run(sampler, progress)
    verdict, reason = trial.judge(invalid, late, refused=0)
    return Outcome(
        verdict=verdict,
        reason=reason,
        method="sampled",
        instances=trial.figures,
        tests=trial.tests,
        findings=(*([] if invalid is None else [found.of_invalid(invalid)]), *trial.findings()),
        worst=trial.witness(invalid),
        draws=trial.draws,
        cases=len(cases),
    )
