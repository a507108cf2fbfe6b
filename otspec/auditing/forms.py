"""The forms that a rule can have, and how they are told apart."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from otspec.auditing.cases import required
from otspec.errors import ProblemError
from otspec.solver import Solver


class Form(StrEnum):
    """How a rule is called, always by position; the value is its name in `otspec.audit`."""

    RNG = "rng"
    """(p, q, drafts, numpy Generator) to a token."""
    UNIFORMS = "uniforms"
    """(p, q, drafts, uniforms) to a token."""
    LAW = "law"
    """(p, q, drafts) to the law of the output, shape (V,)."""
    TORCH = "torch"
    """Batched, (p, q, drafts, torch Generator) to tokens, shape (B,)."""
    TORCH_UNIFORMS = "torch_uniforms"
    """Batched, (p, q, drafts, uniforms) to tokens, shape (B,)."""
    PLAN = "plan"
    """(problem) to an `otspec.Plan`."""


FOURTH = {
    "rng": Form.RNG,
    "uniforms": Form.UNIFORMS,
    "u": Form.UNIFORMS,
    "coins": Form.UNIFORMS,
    "generator": Form.TORCH,
}
"""Forms by the name of the fourth argument."""


def detect(rule: Any) -> Form:
    """The form of a rule, by the number of its arguments and the name of the fourth.

    Raises
    ------
    ProblemError
        If they do not tell.
    """
    if isinstance(rule, str | Solver):
        return Form.PLAN
    if not callable(rule):
        raise ProblemError(f"the rule is {rule!r}; pass a callable, or the name of a solver")
    names = required(rule)
    if len(names) == 1:
        return Form.PLAN
    if len(names) == 3:
        return Form.LAW
    if len(names) == 4 and names[3] in FOURTH:
        return FOURTH[names[3]]
    raise ProblemError(
        f"cannot tell the form of a rule of ({', '.join(names)}); name the fourth argument "
        f"{', '.join(FOURTH)}, or pass form= one of {', '.join(Form)}"
    )
