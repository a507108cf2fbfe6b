"""What both subjects check in the answer of a rule, and the exceptions that say what is wrong with it."""

from __future__ import annotations

from typing import Any

import numpy as np

from otspec.auditing.cases import Case
from otspec.laws import FloatArray, IntArray


class Invalid(Exception):
    """The rule gave no valid output, or no valid law, for some drafts.

    Parameters
    ----------
    message : str
        What is wrong with the answer.
    drafts : ndarray of int, optional
        The drafts that it was given for: shape (n,) of a position, (K, L) of a tree.
    case : Case, optional
    """

    def __init__(self, message: str, drafts: IntArray | None, case: Case | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.drafts = drafts
        self.case = case


class Refused(Exception):
    """The rule is a solver, and says that it does not take the case."""

    def __init__(self, message: str, case: Case) -> None:
        super().__init__(f"{message} (on {case.name!r})")


def checked_law(values: Any, shape: tuple[int, ...], case: Case, drafts: IntArray, tol: float) -> FloatArray:
    """The law that a rule returned, as an array of float64.

    Parameters
    ----------
    values : array_like
        What the rule returned.
    shape : tuple of int
        The shape that it should have: (V,) of a token, (N, V) of a node and a token.
    case : Case
    drafts : ndarray of int
        The drafts that it was given for.
    tol : float
        How far the total may be off 1, and an entry below 0.

    Raises
    ------
    Invalid
        If it is no law.
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
