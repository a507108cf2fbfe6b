"""`otspec.audit`: the audit of a rule that verifies the drafts of one position."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Unpack

from otspec.auditing.driver import judge
from otspec.auditing.positions.subject import Position
from otspec.auditing.report import Audit
from otspec.auditing.settings import AuditOptions, AuditSettings, Progress, check_progress, no_progress
from otspec.laws import FloatArray


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
    p is known to the resolution.  docs/audit.md says what the verdicts mean, and how the tests work.

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
        accepted, or -1.  The same object is called all the time, so it may have a state.  If it, or the drafter, has
        a method `start(rng)`, this is called whenever a new text begins; a text is two tokens.
    scheme : str or callable
        The draft law that the rule is told of: ``"iid"``, ``"without_replacement"``, ``"greedy"``, ``"top_k"``,
        ``"hub_pairs"`` (n = 2), ``"independent"`` (q then has shape (n, V)), or a function of (q, n)
        that makes a `DraftScheme`.
    n : int
        Drafts per position.
    form : str, optional
        One of the forms above.  By default the number of arguments tells, and of four the name of the last, which may
        have a default: ``rng``; ``uniforms``, ``u`` or ``coins``; ``generator`` for torch.
    drafter : str or callable, optional
        Where the drafts really come from, if not from the scheme: a scheme as above, or a function of (q, n, rng) that
        draws a tuple.  The law of the drafts of such a function is not known, so it is tested against the scheme.
    shown : callable, optional
        The q that the rule is told, as a function of the q that the drafts are made from.  By default the same.
    instances : sequence of (p, q), optional
        Laws to try.  By default random and hostile ones, small enough to be enumerated, or few if they are sampled.
    logits : sequence of (target logits, draft logits), optional
        The same, as logits.
    uniforms : int, optional
        Uniforms for each call of a rule that takes them, by default 2 n + 1.
    progress : callable, optional
        Function of (done, most) that is called with the work done and the most that there is.
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
        If an argument is out of range, or the form of the rule cannot be told.
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
