"""Verification of one position, from the logits of both models."""

from __future__ import annotations

from typing import Any, Literal, overload

from otspec.laws import Seed
from otspec.logits import laws_from_logits
from otspec.verification.one import ScoredVerification, Verification, verify


@overload
def verify_logits(
    target_logits: Any,
    draft_logits: Any,
    drafts: Any,
    rng: Seed,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    draft_temperature: float | None = None,
    target_top_k: int | None = None,
    target_top_p: float | None = None,
    logprobs: Literal[False] = False,
) -> Verification: ...
@overload
def verify_logits(
    target_logits: Any,
    draft_logits: Any,
    drafts: Any,
    rng: Seed,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    draft_temperature: float | None = None,
    target_top_k: int | None = None,
    target_top_p: float | None = None,
    logprobs: Literal[True],
) -> ScoredVerification: ...
def verify_logits(
    target_logits: Any,
    draft_logits: Any,
    drafts: Any,
    rng: Seed,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    draft_temperature: float | None = None,
    target_top_k: int | None = None,
    target_top_p: float | None = None,
    logprobs: bool = False,
) -> Verification | ScoredVerification:
    """`otspec.verify` for logits: their laws are taken in float64, so that any precision of the logits will do.

    The settings are those of `otspec.Problem.from_logits`, and must be those by which the drafts were drawn: `top_k`
    and `top_p` truncate the draft law, the target law is whole unless `target_top_k` or `target_top_p` truncates it.
    "Lossless" is meant for these laws: the drafts come from q as it results here, and the output has the law p.

    Parameters
    ----------
    target_logits, draft_logits : array_like or torch tensor, shape (V,)
        Logits, any real dtype; -inf masks a token.
    drafts : array_like of int, shape (n,)
        n independent draws from the draft law.
    rng : numpy.random.Generator or int
        An integer seeds a new generator, which gives the same numbers at every call.
    temperature : float
        Of both models; 0 means greedy.
    top_k, top_p : optional
        Truncation of the draft law.
    draft_temperature : float, optional
        Of the draft model, where it differs.
    target_top_k, target_top_p : optional
        Truncation of the target law.
    logprobs : bool
        Whether the target's log-probability of the output comes with it, under the law that it has.

    Returns
    -------
    Verification, or ScoredVerification
        The output token, and which draft it is.

    Raises
    ------
    ProblemError
        If the logits or a setting are out of range (see `otspec.logits.law_from_logits`), the shapes differ, or a draft
        is not a token or has probability 0 under these settings.

    Examples
    --------
    >>> import numpy as np
    >>> import otspec
    >>> target, draft = np.array([2.0, 1.0, 0.0]), np.array([0.0, 1.0, 2.0])
    >>> q = np.exp(draft / 0.8) / np.exp(draft / 0.8).sum()
    >>> rng = np.random.default_rng(0)
    >>> verified = otspec.verify_logits(target, draft, rng.choice(3, size=2, p=q), rng, temperature=0.8)
    >>> verified.token in (0, 1, 2)
    True
    """
    p, q = laws_from_logits(
        target_logits, draft_logits, temperature, top_k, top_p, draft_temperature, target_top_k, target_top_p
    )
    return verify(p, q, drafts, rng, logprobs=True) if logprobs else verify(p, q, drafts, rng)
