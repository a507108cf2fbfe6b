"""`otspec.audit` and `otspec.audit_paths`: the audit of a rule that verifies the drafts of a position, or of a tree."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Unpack

from otspec.auditing.rules.driver import judge
from otspec.auditing.rules.paths import DraftedTree
from otspec.auditing.rules.positions import Position
from otspec.auditing.rules.report import Audit, PathAudit
from otspec.auditing.settings import AuditOptions, AuditSettings, Progress, check_progress, no_progress
from otspec.laws import FloatArray, as_count
from otspec.verification import Model
from otspec.verification.trees.shape import Shape
from otspec.verification.trees.tree import as_shape


def audit(
    rule: Any,
    scheme: Any = "iid",
    n: int = 3,
    *,
    form: str | None = None,
    drafter: Any = None,
    shown: Callable[[FloatArray], Any] | None = None,
    instances: Sequence[tuple[Any, Any]] | None = None,
    logits: Sequence[tuple[Any, Any]] | None = None,
    uniforms: int | None = None,
    progress: Progress = no_progress,
    **options: Unpack[AuditOptions],
) -> Audit:
    """Find out whether a verification rule is lossless, whatever the instance.

    A rule that gives the law of its output given the drafts is summed over every tuple of drafts: the answer is exact.
    One that gives a token is drawn from until a sequential test has enough evidence against it, or its distance from
    p is known to the resolution.  docs/audit.md explains the verdicts, and how the tests work.

    Parameters
    ----------
    rule : callable, str, Solver
        The name or instance of a solver, or a callable of one of these forms, called by position:

        - ``rng``: (p, q, drafts, rng) -> token, with a numpy generator;
        - ``uniforms``: (p, q, drafts, uniforms) -> token;
        - ``law``: (p, q, drafts) -> law of the output given the drafts, shape (V,);
        - ``torch``: (p, q, drafts, generator) -> tokens of shape (B,), for float64 tensors of shape (B, V), (B, V) and
          (B, n) and a torch generator; ``torch_uniforms``: the same with uniforms of shape (B, m);
        - ``plan``: (problem) -> `otspec.Plan`.

        A rule may return (token, accepted) in place of a token, or (law, P(accepted)) in place of a law: which draft it
        accepted, or -1.  The same object is called throughout, so it may have state.  If it, or the drafter, has
        a method `start(rng)`, this is called whenever a new text begins; a text is two tokens.
    scheme : str or callable
        The draft law declared to the rule: ``"iid"``, ``"without_replacement"``, ``"greedy"``, ``"top_k"``,
        ``"hub_pairs"`` (n = 2), ``"independent"`` (q then has shape (n, V)), or a function of (q, n)
        that makes a `DraftScheme`.
    n : int
        Drafts per position.
    form : str, optional
        One of the forms above.  By default the number of arguments decides, and of four the name of the last, which
        may have a default: ``rng``; ``uniforms``, ``u`` or ``coins``; ``generator`` for torch.
    drafter : str or callable, optional
        Where the drafts really come from, if not from the scheme: a scheme as above, or a function of (q, n, rng) that
        draws a tuple.  The law of the drafts of such a function is not known, so it is tested against the scheme.
    shown : callable, optional
        The q that the rule is shown, as a function of the q that the drafts are made from.  By default the same.
    instances : sequence of (p, q), optional
        Laws to try.  By default random and hostile ones, small enough to be enumerated, or a few to be sampled.
    logits : sequence of (target logits, draft logits), optional
        The same, as logits.
    uniforms : int, optional
        Uniforms for each call of a rule that takes them, by default 2 n + 1.
    progress : callable, optional
        Function of (done, most) that is called with the work done and the most that there can be.
    **options
        The settings that all audits share, by keyword: `seed`, `alpha`, `confidence`, `resolution`, `tol`, `budget`,
        `max_seconds`, `method` and `pairs`.  `otspec.auditing.AuditSettings` explains each and has its default.

    Returns
    -------
    Audit
        With a `verdict`: "lossless", "not lossless" or "inconclusive".

    Raises
    ------
    ProblemError
        If an argument is out of range, or the form of the rule is not clear.
    TypeError
        If a keyword is no argument and no setting.
    UnknownSolver
        If the rule is a string that names no solver.
    MissingExtra
        If the rule takes torch tensors, or is a solver whose package is missing.

    Examples
    --------
    >>> import otspec
    >>> otspec.audit("kseq", scheme="iid", n=2).verdict.value
    'lossless'

    The same rule, given drafts without replacement that it takes for independent ones:

    >>> otspec.audit("kseq:allow_biased=true", scheme="without_replacement", n=2).verdict.value
    'not lossless'
    """
    settings = AuditSettings.of("audit", n, options)
    check_progress(progress)
    subject = Position(
        rule,
        scheme,
        form=form,
        drafter=drafter,
        shown=shown,
        instances=instances,
        logits=logits,
        uniforms=uniforms,
        settings=settings,
    )
    return Audit(judge(subject, settings, progress), settings, subject.label, subject.form, subject.drafts)


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
    all lossless rules.  docs/audit.md has more, and explains the tests.

    Parameters
    ----------
    rule : callable, PathVerifier
        A verifier of `otspec.verification`, if need be without `stop_law`, or a callable of a form, called by position:

        - ``chains``: (target, draft, paths, rng) -> the tokens that it puts out, 1 to L + 1 of them, for arrays of
          shape (K, L + 1, V), (K, L, V) and (K, L), and a numpy generator;
        - ``chains_law``: (target, draft, paths) -> a dictionary from such tuples of tokens to probabilities;
        - ``tree``: (tree, rng) -> (node, token), or (node, accepted, token), for an `otspec.verification.Tree`;
        - ``tree_law``: (tree) -> P(the accepted prefix is node v, the token after it is x), shape (N, V).

        All that is put out but the last token has to be drafted.  The same object is called throughout.  If it has a
        method `start(rng)`, this is called whenever a new text begins; a text is two steps.
    count, length : int
        K independent paths of L tokens are drafted.
    branching : sequence of int, optional
        In their place: how many children each drafted token of a level has.
    form : str, optional
        One of the forms above.  By default the number of arguments decides, and whether the last is called ``rng``.
    shown : callable, optional
        The draft law that the rule is shown, as a function of the one that is drafted from.  By default the same.
    models : iterable of Model, optional
        Pairs of models to try.  By default random and hostile ones over 2 and 3 tokens.
    progress : callable, optional
        Function of (done, most) that is called with the work done and the most that there can be.
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
        If an argument is out of range, or the form of the rule is not clear.
    TypeError
        If a keyword is no argument and no setting.

    Examples
    --------
    >>> import otspec
    >>> from otspec.verification import Block
    >>> otspec.audit_paths(Block(), count=1, length=2).verdict.value
    'lossless'
    """
    named = as_count("count", count), as_count("length", length)
    shape = Shape.paths(*named) if branching is None else as_shape(branching)
    settings = AuditSettings.of("audit_paths", len(shape.paths_of_slots), options)
    check_progress(progress)
    subject = DraftedTree(rule, shape, form=form, shown=shown, models=models, settings=settings)
    outcome = judge(subject, settings, progress)
    return PathAudit(outcome, settings, subject.label, subject.form, subject.drafts, shape.branching)
