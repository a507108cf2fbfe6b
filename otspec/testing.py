"""For tests of other packages: assert that speculative text is the target's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Unpack

from otspec.auditing.engines import (
    Engine,
    EngineAudit,
    EngineAuditOptions,
    EngineVerdict,
    FunctionLaws,
    Laws,
    Sampling,
    audit_engine,
    audit_texts,
)
from otspec.auditing.engines.adapters.function import Completes
from otspec.auditing.engines.engine import DEFAULT_PROMPTS


def assert_lossless(
    subject: Engine | Completes | Sequence[Any],
    plain: Sequence[Any] | None = None,
    *,
    law: Laws | Callable[..., Any] | None = None,
    ends: Sequence[int] = (),
    samplings: Sequence[Sampling] = (Sampling(),),
    prompts: Sequence[str] = DEFAULT_PROMPTS,
    **options: Unpack[EngineAuditOptions],
) -> EngineAudit:
    """Assert that there is no evidence against an engine, or texts, and that a biased rule would have been caught.

    Parameters
    ----------
    subject : Engine, callable or sequence
        An engine or a function that completes prompts, as `otspec.auditing.engines.audit_engine` takes them, or
        independent texts with drafts of one prompt: strings, or their tokens by number.
    plain : sequence, optional
        As many texts without drafts; an engine draws its own.
    law : Laws or callable, optional
        The exact law: of the next token, shape (V,), as a function of the tuple of those before it.
    ends : sequence of int
        Tokens that end a text, if `law` is a function.
    samplings, prompts : optional
        For an engine, as in `otspec.auditing.engines.audit_engine`.
    **options
        The fields of `otspec.auditing.engines.EngineAuditSettings`: texts, length, seed, alpha, ...

    Returns
    -------
    EngineAudit
        With the verdict "no evidence".

    Raises
    ------
    AssertionError
        If the verdict is another one; the message is the verdict's sentence.  A test fails at most with probability
        alpha (0.001) by chance, over all its looks, and with one seed it always comes out the same.
    ProblemError
        If there is nothing to compare with, or a setting is out of its range.

    Examples
    --------
    >>> import numpy as np
    >>> from otspec.testing import assert_lossless
    >>> law = lambda before: [0.5, 0.25, 0.25]
    >>> drafted = np.random.default_rng(0).choice(3, p=[0.5, 0.3, 0.2], size=(3000, 3))
    >>> assert_lossless(drafted, law=law)
    Traceback (most recent call last):
        ...
    AssertionError: not lossless: ...
    """
    laws = FunctionLaws(law, ends) if callable(law) else law
    if isinstance(subject, Engine) or callable(subject):
        audit = audit_engine(subject, samplings, prompts, laws=laws, **options)
    else:
        audit = audit_texts(subject, plain, laws=laws, **options)
    if audit.verdict is not EngineVerdict.NO_EVIDENCE:
        raise AssertionError(f"{audit.verdict.value}: {audit.reason}")
    return audit
