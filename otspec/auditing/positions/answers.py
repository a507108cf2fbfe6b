"""What a rule for one position answers, checked: a token, or the law of one."""

from __future__ import annotations

import operator
from typing import Any, NamedTuple

import numpy as np

from otspec.auditing.answers import Invalid
from otspec.auditing.positions.cases import PositionCase
from otspec.laws import FloatArray, IntArray


class TokenAnswer(NamedTuple):
    """The output of a rule for one tuple of drafts."""

    token: int
    accepted: int | None
    """Which draft the rule says it accepted, -1 for none; None if it does not say."""


class LawAnswer(NamedTuple):
    """The law of the output of a rule, given the drafts."""

    law: FloatArray
    """Shape (V,)."""
    accepted: float | None
    """P(the rule accepts a draft); None if it does not say."""


def as_acceptance(value: Any, law: FloatArray, case: PositionCase, drafts: IntArray, tol: float) -> float:
    """P(a draft is accepted), as a rule that gives a law says it.

    Parameters
    ----------
    value : float
        What the rule says.
    law : ndarray, shape (V,)
        Its law of the output; what it accepts, it puts out.
    case : PositionCase
    drafts : ndarray of int, shape (n,)
    tol : float
        How far the value may be outside [0, 1], or above the law's mass on the drafts.

    Raises
    ------
    Invalid
        If the value is no such probability.
    """
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


def as_token(answer: Any, case: PositionCase, drafts: IntArray) -> TokenAnswer:
    """The token that a rule returned for drafts of shape (n,), and the accepted draft if it says so.

    Raises
    ------
    Invalid
        If it is no token, or not the draft that it is said to be.
    """
    token, accepted = answer if isinstance(answer, tuple) and len(answer) == 2 else (answer, None)
    try:
        found = TokenAnswer(operator.index(token), None if accepted is None else operator.index(accepted))
    except TypeError as error:
        raise Invalid(f"returns {answer!r}, which is not a token id", drafts, case) from error
    check(found, case, drafts)
    return found


def check(answer: TokenAnswer, case: PositionCase, drafts: IntArray) -> None:
    """Check that the token is one, and the draft that it is said to be; drafts has shape (n,).

    Raises
    ------
    Invalid
        If not.
    """
    token, accepted = answer
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
    """One integer for each row of a batch, shape (rows,); `what` names them in the error.

    Raises
    ------
    Invalid
        If they are of another shape or type.
    """
    array = np.asarray(values.cpu() if hasattr(values, "cpu") else values)
    if array.shape != (rows,) or not np.issubdtype(array.dtype, np.integer):
        raise Invalid(f"returns {what} of shape {array.shape} and type {array.dtype}, not {rows} integers", None)
    return array.astype(np.int64)
