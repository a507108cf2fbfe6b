"""The answers of a rule, read: what is wrong with one is raised as `Invalid`, with the drafts that it was given for."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from otspec.auditing.rules.case import Case
from otspec.laws import FloatArray, IntArray


class OutOfTime(Exception):
    """The time is up."""


class Invalid(Exception):
    """The rule gave no valid output, or law, for some drafts: shape (n,) of a position, (K, L) of a tree."""

    def __init__(self, message: str, drafts: IntArray | None, case: Case | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.drafts = drafts
        self.case = case


class Refused(Exception):
    """The rule is a solver, and refuses the case."""

    def __init__(self, message: str, case: Case) -> None:
        super().__init__(f"{message} (on {case.name!r})")


def described(error: Exception) -> str:
    """An error by its type and message."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def checked_law(values: Any, shape: tuple[int, ...], case: Case, drafts: IntArray, tol: float) -> FloatArray:
    """The law that a rule returned for some drafts, of a shape: (V,) of a token, (N, V) of a node and a token.

    The total may be off 1 by `tol`, and an entry below 0 by as much.
    """
    try:
        law = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise Invalid(f"returns {values!r}, which is not a law", drafts, case) from error
    if law.shape != shape:
        raise Invalid(f"returns an array of shape {law.shape}, not a law of shape {shape}", drafts, case)
    if not np.isfinite(law).all():
        said = f"holds {law[int(np.argmin(np.isfinite(law)))]}" if law.ndim == 1 else "is not finite"
        raise Invalid(f"returns a law that {said}", drafts, case)
    if law.min() < -tol:
        raise Invalid(f"returns a law that holds {law.min():.6g}, below 0", drafts, case)
    if abs(law.sum() - 1) > tol:
        raise Invalid(f"returns a law that sums to {law.sum():.9g} (allowed: 1 +/- {tol:g})", drafts, case)
    return law


def as_tokens(answers: Sequence[Any], case: Case, drafts: IntArray) -> tuple[IntArray, IntArray | None]:
    """Outputs, shape (rows,), and accepted drafts if all are reported, of what was returned for drafts (rows, n)."""
    tokens, accepted = np.empty(len(answers), dtype=np.int64), np.full(len(answers), -1)
    says, rows = True, len(answers)
    for row, answer in enumerate(answers):
        token, said = answer if isinstance(answer, tuple) and len(answer) == 2 else (answer, None)
        try:
            tokens[row] = operator.index(token)
            if said is None:
                says = False
            else:
                accepted[row] = operator.index(said)
        except (TypeError, OverflowError):
            rows = row
            break
    if wrong := fault(tokens[:rows], accepted[:rows], case.vocab, drafts[:rows]):
        raise Invalid(wrong[1], drafts[wrong[0]], case)
    if rows < len(answers):
        raise Invalid(f"returns {answers[rows]!r}, which is not a token id", drafts[rows], case)
    return tokens, accepted if says else None


def fault(tokens: IntArray, accepted: IntArray | None, vocab: int, drafts: IntArray) -> tuple[int, str] | None:
    """The first row whose output is no token, or not the draft that it is reported to be, and what is wrong with it.

    Tokens and accepted drafts have shape (rows,), drafts (rows, n).
    """
    n, said = drafts.shape[1], np.full(tokens.shape, -1) if accepted is None else accepted
    named = np.take_along_axis(drafts, np.clip(said, 0, n - 1)[:, None], axis=1)[:, 0]
    off = (tokens < 0) | (tokens >= vocab) | (said < -1) | (said >= n) | ((said >= 0) & (named != tokens))
    if not off.any():
        return None
    row = int(off.argmax())
    token, draft = int(tokens[row]), int(said[row])
    if not 0 <= token < vocab:
        return row, f"returns token {token}; token ids run from 0 to {vocab - 1}"
    if not -1 <= draft < n:
        return row, f"reports that it accepted draft {draft}; drafts are 0 to {n - 1}, or -1"
    return row, f"reports that it accepted draft {draft}, token {named[row]}, and returns token {token}"


def as_laws(answers: Sequence[Any], case: Case, drafts: IntArray, tol: float) -> tuple[FloatArray, FloatArray | None]:
    """Laws, shape (rows, V), and P(a draft is accepted) if all are reported, shape (rows,); drafts (rows, n)."""
    if not answers:
        return np.empty((0, case.vocab)), None
    pairs = [
        answer if isinstance(answer, tuple) and len(answer) == 2 and np.ndim(answer[0]) == 1 else (answer, None)
        for answer in answers
    ]
    try:
        laws = np.array([law for law, _ in pairs], dtype=np.float64)
        sound = laws.shape == (len(pairs), case.vocab)
        sound = sound and bool(laws.min() >= -tol and (np.abs(laws.sum(axis=1) - 1) <= tol).all())
    except (TypeError, ValueError):
        sound = False
    if not sound:  # one by one, to name the first
        laws = np.stack(
            [checked_law(law, (case.vocab,), case, row, tol) for (law, _), row in zip(pairs, drafts, strict=False)]
        )
    if not all(said is not None for _, said in pairs):
        return laws, None
    rows = zip(pairs, laws, drafts, strict=False)
    return laws, np.array([_acceptance(said, law, row, case, tol) for (_, said), law, row in rows])


def _acceptance(value: Any, law: FloatArray, drafts: IntArray, case: Case, tol: float) -> float:
    """P(a draft is accepted), as a rule that gives a law of shape (V,) reports it for drafts of shape (n,)."""
    try:
        accepted = float(value)
    except (TypeError, ValueError) as error:
        raise Invalid(
            f"reports that it accepts with probability {value!r}, which is not a number", drafts, case
        ) from error
    if not -tol <= accepted <= 1 + tol:
        raise Invalid(f"reports that it accepts with probability {accepted:.6g}, which is not in [0, 1]", drafts, case)
    drafted = float(law[np.unique(drafts)].sum())
    if accepted > drafted + tol:
        raise Invalid(
            f"reports that it accepts with probability {accepted:.6g}, and puts out a draft with {drafted:.6g} only",
            drafts,
            case,
        )
    return accepted


def as_integers(values: Any, what: str, rows: int) -> IntArray:
    """One integer for each row of a batch, shape (rows,); `what` names them in the error."""
    array = as_array(values.cpu() if hasattr(values, "cpu") else values)
    if array.shape != (rows,) or not np.issubdtype(array.dtype, np.integer):
        raise Invalid(f"returns {what} of shape {array.shape} and type {array.dtype}, not {rows} integers", None)
    return array.astype(np.int64)


def as_array(values: Any) -> np.ndarray:
    """What a user's function returned as an array of whatever shape; rows of several lengths are one object."""
    try:
        return np.asarray(values)
    except ValueError:
        return np.array(None)
