"""Drawing texts from a rule for drafted paths, and what they say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from otspec.auditing.counts import Measured
from otspec.auditing.paths.cases import PathCase
from otspec.auditing.paths.report import PathFigures
from otspec.auditing.paths.rules import PathRule
from otspec.auditing.subject import TEXT
from otspec.auditing.tally import Tally
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
        """Draws the drafts and what follows the rule's tokens: a rule may spoil the generator that it is handed."""

    def draw(self, cases: Sequence[PathCase], texts: int) -> list[Verified]:
        """So many texts of each case; see `otspec.auditing.subject.Sampler`.

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


class PathTally(Tally):
    """The draws of one model; a hit is a drawn level that is accepted, which happens with chance accepted / L.

    Parameters
    ----------
    case : PathCase
    simultaneous : bool
        Whether texts are drawn in one batch, step by step, rather than one after the other.
    """

    case: PathCase

    def __init__(self, case: PathCase, simultaneous: bool) -> None:
        super().__init__(case, case.weighed, simultaneous)
        self.accepted = 0
        """Accepted tokens of all draws."""

    @property
    def optimum(self) -> float | None:
        """The largest mean share of accepted levels of a lossless rule; None where it is not computed."""
        return self.case.optimum

    def add(self, texts: Verified) -> None:
        """Count more draws."""
        self.count(texts.texts, texts.level < texts.accepted)
        self.accepted += int(texts.accepted.sum())

    def _figures(self, measured: Measured) -> PathFigures:
        return PathFigures(
            name=self.case.name,
            vocab=self.case.vocab,
            draws=self.draws,
            tv=measured.tv,
            tv_interval=measured.interval,
            membership=self.accepted / self.draws / self.case.length,
            membership_error=measured.rate_error,
            optimum=self.optimum,
            grouped=self.grouped,
            tv_tokens=measured.tv_tokens,
            length=self.case.length,
        )
