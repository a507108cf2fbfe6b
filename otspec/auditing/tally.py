"""What was drawn on one case, and what it says of the rule."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from otspec.auditing import findings
from otspec.auditing.cases import Case
from otspec.auditing.counts import Counts, Measured
from otspec.auditing.outcome import Figures, Witness
from otspec.laws import FloatArray


class Tally(Counts):
    """The draws of one case.

    Parameters
    ----------
    case : Case
    drafted : ndarray, shape (V,) or (n, V)
        Draft law of what is counted, by which large vocabularies are grouped.
    simultaneous : bool
        Whether texts are drawn in one batch, step by step, rather than one after the other.
    """

    def __init__(self, case: Case, drafted: FloatArray, simultaneous: bool) -> None:
        super().__init__(case.p, drafted, simultaneous)
        self.case = case
        self.figures: Figures | None = None
        """The figures as of the last look."""

    @abstractmethod
    def add(self, texts: Any) -> None:
        """Count what the sampler has drawn."""

    @abstractmethod
    def _figures(self, measured: Measured) -> Figures:
        """The figures of the case, from what a look has measured."""

    def look(self, miss: float) -> None:
        """Bring the figures up to date; their intervals hold at all looks together, but with probability `miss`."""
        self.figures = self._figures(self.measure(miss))

    def against_drafts(self) -> float:
        """Log evidence that the drafts do not have their declared law: none where the audit draws them itself."""
        return 0.0

    def witness(self, seed: int) -> Witness:
        """The case, with the shares of the draws."""
        return findings.witness(self.case, seed, self.tokens / self.draws)
