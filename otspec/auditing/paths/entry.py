"""`otspec.audit_paths`: the audit of a rule that verifies several drafted tokens, or several paths of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Unpack

from otspec.auditing.driver import judge
from otspec.auditing.paths.report import PathAudit
from otspec.auditing.paths.subject import DraftedTree
from otspec.auditing.settings import AuditOptions, AuditSettings, Progress, check_progress, no_progress
from otspec.laws import FloatArray
from otspec.paths import Model
from otspec.verification.trees.shape import Shape
from otspec.verification.trees.tree import as_shape


def audit_paths(
    rule: Any,
    count: int = 2,
    length: int = 2,
    *,
    branching: Sequence[int] | None = None,
    form: str | None = None,
    shown: Callable[[FloatArray], Any] | None = None,
    models: Iterable[Model] | None = None,
    progress: Progress = no_progress,
    **options: Unpack[AuditOptions],
) -> PathAudit:
    """Find out whether a rule that verifies several drafted tokens, or several paths of them, is lossless.

    It is if what it puts out, continued by the target, has the law of target text.  The audit counts texts of L + 1
    tokens of small models whose laws depend on the whole prefix: exactly, over every tree that can be drafted, where
    the rule gives its law, and by draws where it does not.  It also compares the accepted length with the largest of
    all lossless rules.  docs/audit.md says more, and how the tests work.

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
    form : str, optional
        One of the forms above.  By default the number of arguments tells, and whether the last is called ``rng``.
    shown : callable, optional
        The draft law that the rule is told, as a function of the one that is drafted from.  By default the same.
    models : iterable of Model, optional
        Pairs of models to try.  By default random and hostile ones over 2 and 3 tokens.
    progress : callable, optional
        Function of (done, most) that is called with the work done and the most that there is.
    **options
        The settings that all audits share, by keyword: `seed`, `alpha`, `confidence`, `resolution`, `tol`, `budget`,
        `max_seconds`, `method` and `pairs`.  `otspec.auditing.AuditSettings` explains each and has its default.

    Returns
    -------
    PathAudit
        With a `verdict`: "lossless", "not lossless" or "inconclusive".

    Raises
    ------
    ProblemError
        If an argument is out of range, or the form of the rule cannot be told.
    TypeError
        If a keyword is no argument and no setting.

    Examples
    --------
    >>> import otspec
    >>> from otspec.paths import Block
    >>> otspec.audit_paths(Block(), count=1, length=2).verdict.value
    'lossless'
    """
    shape = Shape.paths(count, length) if branching is None else as_shape(branching)
    settings = AuditSettings.of("audit_paths", len(shape.paths_of_slots), options)
    check_progress(progress)
    subject = DraftedTree(rule, shape, form=form, shown=shown, models=models, settings=settings)
    outcome = judge(subject, settings, progress)
    return PathAudit(outcome, settings, subject.label, subject.form, subject.drafts, shape.branching)
