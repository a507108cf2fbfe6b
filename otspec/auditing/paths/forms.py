"""The forms that a rule for drafted paths can have, and how they are told apart."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from otspec.auditing.signatures import arguments_of
from otspec.errors import ProblemError
from otspec.paths import PathVerifier


class PathForm(StrEnum):
    """How a rule is called, always by position; the value is its name in `otspec.audit_paths`."""

    VERIFIER = "verifier"
    """An `otspec.paths.PathVerifier`: its `stop_law` where the audit is exact, its `verify` where it is sampled."""
    TREE = "tree"
    """(tree, numpy Generator) to (node, token), or to (node, accepted, token)."""
    TREE_LAW = "tree_law"
    """(tree) to the law of that, shape (N, V)."""
    CHAINS = "chains"
    """(target, draft, paths, numpy Generator) to the tokens that are put out."""
    CHAINS_LAW = "chains_law"
    """(target, draft, paths) to their law: a dictionary from tuples of tokens to probabilities."""


LAST = "rng"
"""The name that tells a generator."""


def detect(rule: Any) -> PathForm:
    """The form of a rule, by its methods, or the number of its arguments.

    Raises
    ------
    ProblemError
        If they do not tell.
    """
    if isinstance(rule, PathVerifier):
        return PathForm.VERIFIER
    if not callable(rule):
        raise ProblemError(f"the rule is {rule!r}; pass a callable, or a verifier such as otspec.paths.Nested()")
    arguments = arguments_of(rule)
    required = [name for name in arguments.required if name != LAST]
    with_rng = arguments.positional[len(required) : len(required) + 1] == [LAST]
    if len(required) == 1:
        return PathForm.TREE if with_rng else PathForm.TREE_LAW
    if len(required) == 3:
        return PathForm.CHAINS if with_rng else PathForm.CHAINS_LAW
    raise ProblemError(
        f"cannot tell the form of a rule of ({', '.join(arguments.required)}); it takes (tree, {LAST}), (tree), "
        f"(target, draft, paths, {LAST}) or (target, draft, paths), or pass form= one of {', '.join(PathForm)}"
    )
