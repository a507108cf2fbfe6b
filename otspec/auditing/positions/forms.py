"""The forms that a rule for one position can have, and how they are told apart."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from otspec.auditing.signatures import arguments_of
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
"""Forms by the name of the fourth argument, which may have a default."""


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
    arguments = arguments_of(rule)
    names = arguments.required
    if len(names) == 1:
        return Form.PLAN
    fourth = arguments.positional[3:4]
    if len(names) in (2, 3, 4) and fourth and fourth[0] in FOURTH:
        return FOURTH[fourth[0]]
    if len(names) == 3:
        if elsewhere := [name for name in (*arguments.optional, *arguments.keywords) if name in FOURTH]:
            raise ProblemError(
                f"the rule takes {elsewhere[0]}, and not as its fourth argument by position, so the audit would never "
                f"hand it over; wrap the rule in a function of (p, q, drafts, {elsewhere[0]}), or pass form='law' if "
                "it gives the law of the output without it"
            )
        return Form.LAW
    raise ProblemError(
        f"cannot tell the form of a rule of ({', '.join(names)}); name the fourth argument "
        f"{', '.join(FOURTH)}, or pass form= one of {', '.join(Form)}"
    )
