"""`otspec.audit_paths`, the door to both kinds of audit of drafted paths."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from otspec.auditing.deadline import Deadline
from otspec.auditing.entry import label_of
from otspec.auditing.instances import HOSTILE, ORDINARY
from otspec.auditing.paths.cases import MAX_TREES, PathCase, case_of, own_models
from otspec.auditing.paths.exact import enumerate_paths
from otspec.auditing.paths.report import PathAudit
from otspec.auditing.paths.rules import rule_of
from otspec.auditing.paths.sampled import sample_paths
from otspec.auditing.report import Progress, Settings, no_progress
from otspec.errors import ProblemError
from otspec.laws import FloatArray, as_count
from otspec.paths import Model
from otspec.tolerances import TOL
from otspec.verification.trees.shape import Shape
from otspec.verification.trees.tree import as_shape

SAMPLED = (*ORDINARY, "zeros", "ties", "point target")
"""Kinds of models that are drawn from: fewer, because each takes thousands of draws."""


def audit_paths(
    rule: Any,
    count: int = 2,
    length: int = 2,
    *,
    branching: Sequence[int] | None = None,
    seed: int = 0,
    form: str | None = None,
    shown: Callable[[FloatArray], Any] | None = None,
    models: Iterable[Model] | None = None,
    method: str = "auto",
    pairs: bool = True,
    budget: int = 1_000_000,
    alpha: float = 1e-3,
    confidence: float = 0.99,
    resolution: float = 0.05,
    tol: float = TOL,
    max_seconds: float | None = None,
    progress: Progress = no_progress,
) -> PathAudit:
    """Find out whether a rule that verifies several drafted tokens, or several paths of them, is lossless.

    It is if what it puts out, continued by the target, has the law of target text.  The audit counts texts of L + 1
    tokens of small models whose laws depend on the whole prefix: exactly, over every tree that can be drafted, where
    the rule gives its law, and by draws where it does not.  It also compares the accepted length with the largest of
    all lossless rules.  docs/audit.md says more.

    Parameters
    ----------
    rule : callable, PathVerifier
        A verifier of `otspec.paths`, or a callable of one of these forms, called by position:

        - ``chains``: (target, draft, paths, rng) -> the tokens that it puts out, 1 to L + 1 of them, for arrays of
          shape (K, L + 1, V), (K, L, V) and (K, L), and a numpy generator;
        - ``chains_law``: (target, draft, paths) -> a dictionary from such tuples of tokens to probabilities;
        - ``tree``: (tree, rng) -> (node, token), or (node, accepted, token), for an `otspec.paths.Tree`;
        - ``tree_law``: (tree) -> P(the accepted prefix is node v, the token after it is x), shape (N, V).

        All that is put out but the last token has to be drafted.  The same object is called all the time.  If it has a
        method `start(rng)`, this is called whenever a new text begins; a text is two steps.
    count, length : int
        K independent paths of L tokens are drafted.
    branching : sequence of int, optional
        In their place: how many children each drafted token of a level has.
    seed : int
        Same seed, same audit.
    form : str, optional
        One of the forms above.  By default the number of arguments tells, and whether the last is called ``rng``.
    shown : callable, optional
        The draft law that the rule is told, as a function of the one that is drafted from.  By default the same.
    models : iterable of Model, optional
        Pairs of models to try.  By default random and hostile ones over 2 and 3 tokens.
    method : str
        ``"exact"`` to enumerate, ``"sampled"`` to draw, ``"auto"`` to enumerate where that is possible.
    pairs : bool
        Test also whether steps are independent of those before.
    budget, alpha, confidence, resolution, tol, max_seconds, progress
        As for `otspec.audit`.

    Returns
    -------
    PathAudit
        With a `verdict`: "lossless", "not lossless" or "inconclusive".

    Raises
    ------
    ProblemError
        If an argument is out of range, or the form of the rule cannot be told.

    Examples
    --------
    >>> import otspec
    >>> from otspec.paths import Block
    >>> otspec.audit_paths(Block(), count=1, length=2).verdict.value
    'lossless'
    """
    shape = Shape.paths(count, length) if branching is None else as_shape(branching)
    paths = len(shape.paths_of_slots)
    settings = Settings(paths, seed, alpha, confidence, resolution, tol, as_count("budget", budget), max_seconds)
    if not (isinstance(method, str) and method in ("auto", "exact", "sampled")):
        raise ProblemError(f"method is {method!r}; known: auto, exact, sampled")
    if not isinstance(pairs, bool | np.bool_):
        raise ProblemError(f"pairs is {pairs!r}; pass True or False")
    for name, call in (("progress", progress), *([] if shown is None else [("shown", shown)])):
        if not callable(call):
            raise ProblemError(f"{name} is {call!r}; pass a function")
    auditor = rule_of(rule, form, tol, Deadline(max_seconds))
    given = None if models is None else _given(models, shape, shown)
    if method != "sampled" and auditor.has_law:
        cases = given or _cases(own_models(seed, shape.depth, (*ORDINARY, *HOSTILE)), shape, shown)
        listed = [case for case in cases if case.enumerable]
        if listed and (given is None or len(listed) == len(given)):
            outcome = enumerate_paths(auditor, listed, settings, progress)
            return PathAudit(outcome, settings, label_of(rule), auditor.form.value, _drafts(shape), shape.branching)
    if method == "exact":
        raise ProblemError(
            f"a rule of form {auditor.form} cannot be enumerated here: that takes a law (form verifier, tree_law or "
            f"chains_law) and at most {MAX_TREES:,} trees that can be drafted; leave method out"
        )
    cases = given or _cases(own_models(seed, shape.depth, SAMPLED), shape, shown)
    outcome = sample_paths(auditor, cases, bool(pairs), settings, progress)
    return PathAudit(outcome, settings, label_of(rule), auditor.form.value, _drafts(shape), shape.branching)


def _cases(
    named: Iterable[tuple[str, Model]], shape: Shape, shown: Callable[[FloatArray], Any] | None
) -> list[PathCase]:
    return [case_of(name, model, shape, shown) for name, model in named]


def _given(models: Iterable[Model], shape: Shape, shown: Callable[[FloatArray], Any] | None) -> list[PathCase]:
    try:
        listed = list(models)
    except TypeError as error:
        raise ProblemError(f"models is {models!r}; pass a list of otspec.paths.Model") from error
    if not listed:
        raise ProblemError("models is empty; leave it out for the default, or pass at least one")
    return _cases(((f"model {number}", model) for number, model in enumerate(listed)), shape, shown)


def _drafts(shape: Shape) -> str:
    if shape.independent_paths:
        return f"{shape.branching[0]} independent paths of {shape.depth} tokens"
    return f"a tree of branching {shape.branching}"
