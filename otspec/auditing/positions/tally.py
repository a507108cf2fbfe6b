"""What was drawn on one position, and what it says of the rule and the drafter."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from otspec.auditing.counts import Measured
from otspec.auditing.evidence import log_evidence
from otspec.auditing.outcome import Figures
from otspec.auditing.positions.cases import PositionCase
from otspec.auditing.positions.optima import optimum_iid, optimum_of
from otspec.auditing.positions.sampling import Texts
from otspec.auditing.tally import Tally
from otspec.errors import ProblemError
from otspec.laws import FloatArray, IntArray

MAX_COMPARED = 1024
"""Drafts of a drafter are compared with the declared law tuple by tuple up to so many tuples, else by their first."""


class PositionTally(Tally):
    """The draws of one position; a hit is an output that is one of the drafts.

    Parameters
    ----------
    case : PositionCase
    simultaneous : bool
        Whether texts are drawn in one batch, step by step, rather than one after the other.

    Raises
    ------
    ProblemError
        If the declared drafts have more than 1024 tuples, and the scheme does not know the law of its first draft.
    """

    case: PositionCase

    def __init__(self, case: PositionCase, simultaneous: bool) -> None:
        super().__init__(case, case.q, simultaneous)
        self.tuples: IntArray = np.zeros(self.draft_law.size, dtype=np.int64)
        """First steps of texts by declared tuple of drafts, or by first draft; the last entry counts all others."""
        self.accepted: int | None = 0
        """Drafts that the rule says it accepted; None if it does not always say."""

    @cached_property
    def optimum(self) -> float | None:
        """alpha* of the drafts."""
        return optimum_of(self.case)

    @cached_property
    def optimum_iid(self) -> float | None:
        """alpha* of i.i.d. drafts."""
        return optimum_iid(self.case)

    @cached_property
    def _by_tuple(self) -> dict[tuple[int, ...], int] | None:
        """Row of each declared tuple, if they are few."""
        if self.case.declared.support_size() > MAX_COMPARED:
            return None
        return {tuple(row): place for place, row in enumerate(self.case.declared.support().drafts.tolist())}

    @cached_property
    def draft_law(self) -> FloatArray:
        """Declared law of what `tuples` counts, of the same shape."""
        if self._by_tuple is not None:
            law = self.case.declared.support().probabilities
        else:
            first = self.case.declared.first_draft()
            if first is None:
                raise ProblemError(
                    f"the declared {type(self.case.declared).__name__} has more than {MAX_COMPARED} tuples and does "
                    "not know the law of its first draft, so a drafter cannot be compared with it; take fewer tokens"
                )
            law = first
        return np.append(law / law.sum(), 0.0)

    def add(self, texts: Texts) -> None:
        """Count more draws."""
        drafts, tokens, accepted = texts
        self.count(tokens, (drafts == tokens[..., None]).any(axis=-1))
        if accepted is None or self.accepted is None:
            self.accepted = None
        else:
            self.accepted += int((accepted >= 0).sum())
        if self.case.drafted is None:
            rows = drafts[:, 0].tolist()  # drafts that depend on those before are the pair test's business
            by_tuple, other = self._by_tuple, self.tuples.size - 1
            found = [row[0] if by_tuple is None else by_tuple.get(tuple(row), other) for row in rows]
            self.tuples += np.bincount(found, minlength=self.tuples.size)

    def against_drafts(self) -> float:
        """Log evidence that the drafts do not come from the declared law."""
        return log_evidence(self.tuples, self.draft_law)

    def _figures(self, measured: Measured) -> Figures:
        return Figures(
            name=self.case.name,
            vocab=self.case.vocab,
            draws=self.draws,
            tv=measured.tv,
            tv_interval=measured.interval,
            membership=measured.rate,
            membership_error=measured.rate_error,
            step_acceptance=None if self.accepted is None else self.accepted / self.draws,
            optimum=self.optimum,
            optimum_iid=self.optimum_iid,
            grouped=self.grouped,
            tv_tokens=measured.tv_tokens,
        )
