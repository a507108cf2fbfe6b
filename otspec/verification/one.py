"""Verification of one position."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, overload

from otspec.errors import ProblemError
from otspec.kernels.interval.places import memory
from otspec.laws import Seed, as_generator, as_law, as_tokens, as_tuple
from otspec.verification.rules.interval.compiled import as_floats, verify_one

if TYPE_CHECKING:
    import torch

    from otspec.verification.device import RowVerification


class Verification(NamedTuple):
    """What comes out of the verification of one position.

    Examples
    --------
    >>> import otspec
    >>> verified = otspec.verify([0.9, 0.1], [0.9, 0.1], [0, 0], rng=0)  # p = q: a draft is always accepted
    >>> verified.token, verified.draft >= 0
    (0, True)
    """

    token: int
    """The output."""
    draft: int
    """Index of the accepted draft, or -1: the output is then a draw from the residual law."""


class ScoredVerification(NamedTuple):
    """The same with ``logprobs=True``.

    Examples
    --------
    >>> import otspec
    >>> otspec.verify([0.5, 0.5], [0.9, 0.1], [0, 0], rng=0, logprobs=True).logprob  # whatever was put out
    -0.6931471805599453
    """

    token: int
    draft: int
    logprob: float
    """The target's log-probability of the output."""


@overload
def verify(p: Any, q: Any, drafts: Any, rng: Seed, *, logprobs: Literal[False] = False) -> Verification: ...
@overload
def verify(p: Any, q: Any, drafts: Any, rng: Seed, *, logprobs: Literal[True]) -> ScoredVerification: ...
@overload
def verify(
    p: Any, q: Any, drafts: Any, rng: torch.Generator | torch.Tensor, *, logprobs: bool = False
) -> RowVerification: ...
def verify(p: Any, q: Any, drafts: Any, rng: Any, *, logprobs: bool = False) -> Any:
    """Verify i.i.d. drafts of one position: the output has law p, and is a draft as often as any rule can make it.

    The same rule as the plan of ``otspec.solve(problem, "interval")``, without its figures: after the first
    call of a thread no array of the size of the vocabulary is allocated, and only tokens with q > 0 are sorted, so
    drafts truncated to top-k cost O(V + k).

    Parameters
    ----------
    p, q : array_like or torch tensor, shape (V,)
        Target law, and the law that the drafts were really drawn from (after temperature and truncation).  Tensors of
        shape (B, V) are B positions, and stay on their device: see `otspec.verification.device.verify_rows`.
    drafts : array_like of int, shape (n,)
        n independent draws from q; a tensor of shape (B, n) for B positions.
    rng : numpy.random.Generator
        For B positions a torch.Generator, or a float64 tensor of uniforms of shape (B, n + 1, 3).
    logprobs : bool
        Whether the target's log-probabilities of the outputs come with them: under p, which is the law of the output,
        whether it is a draft or a draw from the residual law.

    Returns
    -------
    Verification, or ScoredVerification
        The output token, and which draft it is; `otspec.verification.device.RowVerification` for B positions.

    Raises
    ------
    ProblemError
        If p or q is not a law, their shapes differ, or a draft is not a token or has q = 0.

    Examples
    --------
    >>> import numpy as np
    >>> import otspec
    >>> p, q = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.3, 0.5])
    >>> rng = np.random.default_rng(0)
    >>> outputs = [otspec.verify(p, q, rng.choice(3, size=2, p=q), rng).token for _ in range(10_000)]
    >>> bool(np.abs(np.bincount(outputs) / 10_000 - p).max() < 0.03)  # the output has the target's law
    True
    """
    if hasattr(p, "detach") and getattr(p, "ndim", 1) == 2:
        from otspec.verification.device import verify_rows  # torch is optional, and takes a second to import

        return verify_rows(p, q, drafts, rng, logprobs=logprobs)
    p, q = as_floats("p", p), as_floats("q", q)
    if p.ndim != 1 or p.shape != q.shape:
        raise ProblemError(f"p has shape {p.shape} and q {q.shape}; both need one shape (V,)")
    drafts = as_tokens(drafts)
    if drafts.size == 0:
        raise ProblemError("there are no drafts; draft at least 1 token per position")
    drafts, rng = as_tuple(drafts, drafts.size, p.size), as_generator(rng, 1)
    mine = memory.of(p.size)
    token, draft = verify_one(p, q, drafts, rng.random((drafts.size + 1, 3)), mine.work, mine.places)
    if token < 0:
        as_law("p", p)
        as_law("q", q)
        raise ProblemError(f"the drafts {drafts} hold a token whose draft probability is 0")
    return ScoredVerification(token, draft, math.log(p[token])) if logprobs else Verification(token, draft)
