"""What a rule answers, checked: a token or a law, or else `Invalid`."""

from __future__ import annotations

import operator
from typing import Any, NamedTuple

import numpy as np

from otspec.auditing.cases import Case, Tried
from otspec.laws import FloatArray, IntArray


class Invalid(Exception):
    """The rule gave no token, or no law, for these drafts."""

    def __init__(self, message: str, drafts: IntArray | None, case: Tried | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.drafts = drafts
        self.case = case


class Refused(Exception):
    """A solver does not take the case."""

    def __init__(self, message: str, case: Case) -> None:
        super().__init__(f"{message} (on {case.name!r})")


class Outcome(NamedTuple):
    """What a rule did with one tuple of drafts."""

    token: int
    accepted: int | None
    """Which draft it says it accepted, -1 for none; None if it does not say."""


class Given(NamedTuple):
    """What a rule said of the law of its output, given the drafts."""

    law: FloatArray
    accepted: float | None
    """P(it accepts a draft); None if it does not say."""


def as_law(values: Any, case: Case, drafts: IntArray, tol: float) -> FloatArray:
    """The law that a rule returned, shape (V,), or `Invalid`; tol is how far it may be off 1 in total, or below 0."""
    try:
        law = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise Invalid(f"returns {values!r}, which is not a law", drafts, case) from error
    if law.shape != (case.vocab,):
        raise Invalid(f"returns an array of shape {law.shape}, not a law of shape ({case.vocab},)", drafts, case)
    if not np.isfinite(law).all():
        raise Invalid(f"returns a law that holds {law[int(np.argmin(np.isfinite(law)))]}", drafts, case)
    if law.min() < -tol:
        raise Invalid(f"returns a law that holds {law.min():.6g}, below 0", drafts, case)
    if abs(law.sum() - 1) > tol:
        raise Invalid(f"returns a law that sums to {law.sum():.9g} (allowed: 1 +/- {tol:g})", drafts, case)
    return law


def as_acceptance(value: Any, law: FloatArray, case: Case, drafts: IntArray, tol: float) -> float:
    """P(a draft is accepted) as a rule that gives a law says it, or `Invalid`; what is accepted is the output."""
    try:
        accepted = float(value)
    except (TypeError, ValueError) as error:
        raise Invalid(
            f"says that it accepts with probability {value!r}, which is not a number", drafts, case
        ) from error
    if not -tol <= accepted <= 1 + tol:
        raise Invalid(f"says that it accepts with probability {accepted:.6g}, which is not in [0, 1]", drafts, case)
    drafted = float(law[np.unique(drafts)].sum())
    if accepted > drafted + tol:
        raise Invalid(
            f"says that it accepts with probability {accepted:.6g}, and puts out a draft with {drafted:.6g} only",
            drafts,
            case,
        )
    return accepted


def as_outcome(answer: Any, case: Case, drafts: IntArray) -> Outcome:
    """The token that a rule returned, and the draft if it says so, or `Invalid`."""
    token, accepted = answer if isinstance(answer, tuple) and len(answer) == 2 else (answer, None)
    try:
        outcome = Outcome(operator.index(token), None if accepted is None else operator.index(accepted))
    except TypeError as error:
        raise Invalid(f"returns {answer!r}, which is not a token id", drafts, case) from error
    check(outcome, case, drafts)
    return outcome


def check(outcome: Outcome, case: Case, drafts: IntArray) -> None:
    """Raise `Invalid` unless the token is one, and the draft that it is said to be."""
    token, accepted = outcome
    if not 0 <= token < case.vocab:
        raise Invalid(f"returns token {token}; token ids run from 0 to {case.vocab - 1}", drafts, case)
    if accepted is None:
        return
    if not -1 <= accepted < case.n:
        raise Invalid(f"says that it accepted draft {accepted}; drafts are 0 to {case.n - 1}, or -1", drafts, case)
    if accepted >= 0 and drafts[accepted] != token:
        raise Invalid(
            f"says that it accepted draft {accepted}, token {drafts[accepted]}, and returns token {token}", drafts, case
        )


def as_integers(values: Any, what: str, rows: int) -> IntArray:
    """One integer a row of a batch, or `Invalid`."""
    array = np.asarray(values.cpu() if hasattr(values, "cpu") else values)
    if array.shape != (rows,) or not np.issubdtype(array.dtype, np.integer):
        raise Invalid(f"returns {what} of shape {array.shape} and type {array.dtype}, not {rows} integers", None)
    return array.astype(np.int64)
