"""`otspec.audit`, the door to both kinds of audit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from otspec.auditing import instances as families
from otspec.auditing.calls import BatchedRule, Rule, rule_of
from otspec.auditing.cases import Drafting
from otspec.auditing.deadline import Deadline
from otspec.auditing.exact import MAX_TUPLES, enumerable, enumerate_all
from otspec.auditing.report import Audit, Progress, Settings, no_progress
from otspec.auditing.sampled import sample_all
from otspec.auditing.sampling import InBatches, OneByOne, Sampler
from otspec.errors import ProblemError
from otspec.laws import FloatArray, as_count
from otspec.tolerances import TOL

MOST_DRAFTS, MOST_UNIFORMS = 1 << 12, 1 << 20
"""Of one call of a rule: thousands of calls are made, and drafted for."""


def audit(
    rule: Any,
    scheme: Any = "iid",
    n: int = 3,
    *,
    seed: int = 0,
    form: str | None = None,
    drafter: Any = None,
    shown: Callable[[FloatArray], Any] | None = None,
    instances: Sequence[tuple[Any, Any]] | None = None,
    logits: Sequence[tuple[Any, Any]] | None = None,
    method: str = "auto",
    uniforms: int | None = None,
    pairs: bool = True,
    budget: int = 1_000_000,
    alpha: float = 1e-3,
    confidence: float = 0.99,
    resolution: float = 0.05,
    tol: float = TOL,
    max_seconds: float | None = None,
    progress: Progress = no_progress,
) -> Audit:
    """Find out whether a verification rule is lossless, whatever the instance.

    A rule that gives the law of its output given the drafts is summed over every tuple of drafts: the answer is exact.
    One that gives a token is drawn from until a sequential test has enough evidence against it, or its distance from
    p is known to the resolution.  docs/audit.md says how the tests work, and what the verdicts mean.

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
        ``"systematic"``, ``"hub_pairs"`` (n = 2), ``"independent"`` (q then has shape (n, V)), or a function of (q, n)
        that makes a `DraftScheme`.
    n : int
        Drafts per position.
    seed : int
        Same seed, same audit.
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
    method : str
        ``"exact"`` to enumerate, ``"sampled"`` to draw, ``"auto"`` to enumerate where that is possible.
    uniforms : int, optional
        Uniforms for each call of a rule that takes them, by default 2 n + 1.
    pairs : bool
        Test also whether outputs are independent of those before: the last, and some up to 1024 draws back.
    budget : int
        Calls of a rule that is sampled, at most.
    alpha : float
        Bound on the probability that the tests call a lossless rule "not lossless".
    confidence : float
        Probability that all intervals of the total variation hold together.
    resolution : float
        Distance from p, in total variation, up to which a rule that is sampled has to be known to be "lossless".
    tol : float
        Distance from p up to which an enumerated law is "lossless", and what a law's total may be off.
    max_seconds : float, optional
        Stop when so many seconds are over, and say how far the audit came: "inconclusive", unless a bias was found by
        then.  The clock is read between calls of the rule; a call that does not return is not broken off.
    progress : callable, optional
        Called with the work done and the most that there is.

    Returns
    -------
    Audit
        With a `verdict`: "lossless", "not lossless" or "inconclusive".

    Raises
    ------
    ProblemError
        If an argument is out of range, or the form of the rule cannot be told.
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
    settings = Settings(
        as_count("n", n), seed, alpha, confidence, resolution, tol, as_count("budget", budget), max_seconds
    )
    if not (isinstance(method, str) and method in ("auto", "exact", "sampled")):
        raise ProblemError(f"method is {method!r}; known: auto, exact, sampled")
    if not isinstance(pairs, bool | np.bool_):
        raise ProblemError(f"pairs is {pairs!r}; pass True or False")
    if not callable(progress):
        raise ProblemError(f"progress is {progress!r}; pass a function of (done, most)")
    coins = as_count("uniforms", 2 * n + 1 if uniforms is None else uniforms)
    for name, asked, most in (("n", n, MOST_DRAFTS), ("uniforms", coins, MOST_UNIFORMS)):
        if asked > most:
            raise ProblemError(f"{name} is {asked}; an audit hands a rule at most {most:,}")
    auditor = rule_of(rule, form, coins, tol, Deadline(max_seconds))
    drafting = Drafting.of(scheme, drafter, shown)
    cases = [drafting.case(instance, n) for instance in families.given(instances, logits)]
    rows = n if drafting.rows else None
    outcome = None
    if method != "sampled" and isinstance(auditor, Rule) and auditor.has_law and drafting.drafter is None:
        listed = [case for case in cases or drafting.cases(families.small(seed, n, rows), n) if enumerable(case)]
        if listed and len(listed) >= len(cases):
            outcome = enumerate_all(auditor, listed, settings, progress)
    if outcome is None and method == "exact":
        raise ProblemError(
            f"a rule of form {auditor.form} cannot be enumerated here: that takes a conditional law (form law or plan) "
            f"and drafts of a known scheme, at most {MAX_TUPLES:,} tuples of them; leave method out"
        )
    if outcome is None:
        cases = cases or drafting.cases(families.to_sample(seed, n, rows), n)
        sampler: Sampler
        rng = np.random.default_rng(seed)
        if isinstance(auditor, BatchedRule):
            sampler = InBatches(auditor, drafting.drafter, rng)
        else:
            sampler = OneByOne(auditor, drafting.drafter, rng)
        outcome = sample_all(auditor, sampler, cases, pairs, settings, progress)
    return Audit(outcome, settings, label_of(rule), auditor.form.value, drafting.label)


def label_of(rule: Any) -> str:
    """A rule's name in a report."""
    if isinstance(rule, str):
        return rule
    name = getattr(rule, "__qualname__", None)
    return f"{rule.__module__}:{name}" if name else type(rule).__name__
