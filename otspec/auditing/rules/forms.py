"""The forms that a rule can have, how each is called, and how it follows from a signature."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from enum import StrEnum
from typing import Any, NamedTuple

from otspec.errors import ProblemError


class Form(StrEnum):
    """How a rule for one position is called, always by position; the value is its name in `otspec.audit`."""

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


class PathForm(StrEnum):
    """How a rule for drafted paths is called, always by position; the value is its name in `otspec.audit_paths`."""

    VERIFIER = "verifier"
    """An object with a method `verify`, and with `stop_law` if its law can be enumerated."""
    TREE = "tree"
    """(tree, numpy Generator) to (node, token), or to (node, accepted, token)."""
    TREE_LAW = "tree_law"
    """(tree) to the law of that, shape (N, V)."""
    CHAINS = "chains"
    """(target, draft, paths, numpy Generator) to the tokens that are put out."""
    CHAINS_LAW = "chains_law"
    """(target, draft, paths) to their law: a dictionary from tuples of tokens to probabilities."""


FOURTH = {
    "rng": Form.RNG,
    "uniforms": Form.UNIFORMS,
    "u": Form.UNIFORMS,
    "coins": Form.UNIFORMS,
    "generator": Form.TORCH,
}
"""Forms by the name of the fourth argument, which may have a default."""

LAST = "rng"
"""The name of an argument that is a generator."""


class Arguments(NamedTuple):
    """Names of the arguments of a callable, in order."""

    required: list[str]
    """Those taken by position that have no default."""
    optional: list[str]
    """Those taken by position that have a default."""
    keywords: list[str]
    """Those taken by keyword only."""

    @property
    def positional(self) -> list[str]:
        """All that can be given by position."""
        return self.required + self.optional


def arguments_of(call: Callable[..., Any]) -> Arguments:
    """Read the signature of a callable."""
    try:
        parameters = inspect.signature(call).parameters.values()
    except (TypeError, ValueError) as error:
        raise ProblemError(f"cannot read the signature of {call!r}; wrap it in a function ({error})") from error
    by_position = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    found = Arguments([], [], [])
    for entry in parameters:
        if entry.kind in by_position:
            (found.required if entry.default is entry.empty else found.optional).append(entry.name)
        elif entry.kind is inspect.Parameter.KEYWORD_ONLY:
            found.keywords.append(entry.name)
            if entry.default is entry.empty:
                raise ProblemError(
                    f"the argument {entry.name} of {call!r} can be given by keyword only, and the audit calls by "
                    "position; wrap it in a function"
                )
    return found


def form_of(rule: Any, form: str | None) -> Form:
    """The form of a rule for one position: the one that is named, or by its arguments and the name of the fourth."""
    _check_instance(rule)
    if form is not None:
        return Form(_known(form, Form))
    if for_paths(rule):
        raise ProblemError(f"the rule is {rule!r}, for several drafted tokens; pass it to otspec.audit_paths")
    if isinstance(rule, str) or hasattr(rule, "supports"):
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


def for_paths(rule: Any) -> bool:
    """Whether a rule is for several drafted tokens: it has `verify`, or takes (tree, ...) or (., ., paths, ...)."""
    if hasattr(rule, "verify") or isinstance(rule, str) or not callable(rule):
        return hasattr(rule, "verify")
    names = arguments_of(rule).positional
    return names[:1] == ["tree"] or names[2:3] == ["paths"]


def path_form_of(rule: Any, form: str | None) -> PathForm:
    """The form of a rule for drafted paths: the one that is named, or by its methods or number of arguments."""
    named = None if form is None else PathForm(_known(form, PathForm))
    _check_instance(rule)
    if hasattr(rule, "verify") and named in (None, PathForm.VERIFIER):
        return PathForm.VERIFIER
    if named is PathForm.VERIFIER or not callable(rule):
        raise ProblemError(f"the rule is {rule!r}; pass a callable, or a verifier such as otspec.verification.Nested()")
    if named is not None:
        return named
    arguments = arguments_of(rule)
    if arguments.positional[2:3] == ["drafts"]:
        raise ProblemError(f"the rule is {rule!r}, for the drafts of one position; audit it without paths")
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


def _check_instance(rule: Any) -> None:
    """A class has the methods of its instances, and every call of it would be a finding."""
    if isinstance(rule, type):
        raise ProblemError(f"the rule is the class {rule.__qualname__}; pass an instance of it")


def _known(form: object, forms: type[StrEnum]) -> str:
    if not (isinstance(form, str) and form in set(forms)):
        raise ProblemError(f"form is {form!r}; known: {', '.join(forms)}")
    return form
