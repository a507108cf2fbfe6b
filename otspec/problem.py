"""The multi-draft optimal transport problem: a target law and a draft scheme."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from otspec.errors import ProblemError
from otspec.laws import ArrayLike, FloatArray, IntArray, as_float64, as_law, as_tokens, as_tuple
from otspec.logits import laws_from_logits
from otspec.schemes import IID, DraftScheme


@dataclass(frozen=True, eq=False, init=False, repr=False)
class Problem:
    """Output one token with law p, as often as possible one of the drafts [sun2023spectr; thomas2025global, eq. (1)].

    A problem is checked once, here.  It does not know any solver, and no later step rescales it.

    Parameters
    ----------
    p : array_like, shape (V,)
        Target next-token probabilities, checked and scaled as in `otspec.laws.as_law`.
    scheme : DraftScheme
        The law of the n drafts, e.g. ``otspec.IID(q, n=3)``.

    Raises
    ------
    ProblemError
        If p is not a law, or the scheme is for another number of tokens.

    Examples
    --------
    >>> import numpy as np
    >>> import otspec
    >>> problem = otspec.Problem([0.5, 0.3, 0.2], otspec.IID([0.2, 0.3, 0.5], n=2))
    >>> problem
    <Problem: 3 tokens, <IID: n = 2 of 3 tokens, V = 3; draw with sample(rng)>; solve it with otspec.solve>

    Any set of tokens gives a bound on every lossless rule:

    >>> print(f"{problem.bound([2]):.2f} {problem.bound([1, 2]):.2f}")
    0.95 0.86

    From logits, drafts truncated to the likeliest two tokens:

    >>> otspec.Problem.from_logits([2.0, 1.0, 0.0], [1.0, 1.5, 0.5], n=3, top_k=2).scheme
    <IID: n = 3 of 2 tokens, V = 3; draw with sample(rng)>
    """

    p: FloatArray
    scheme: DraftScheme

    def __init__(self, p: ArrayLike, scheme: DraftScheme) -> None:
        law = as_law("p", p)
        if not isinstance(scheme, DraftScheme):
            raise ProblemError(f"scheme is a {type(scheme).__name__}; pass a draft scheme such as otspec.IID(q, n=3)")
        if scheme.vocab != law.size:
            raise ProblemError(f"p has {law.size} tokens and the scheme {scheme.vocab}; both need one vocabulary")
        object.__setattr__(self, "p", law)
        object.__setattr__(self, "scheme", scheme)

    def __repr__(self) -> str:
        return f"<Problem: {self.vocab} tokens, {self.scheme!r}; solve it with otspec.solve>"

    @property
    def n(self) -> int:
        """Drafts per position."""
        return self.scheme.n

    @property
    def vocab(self) -> int:
        """Number of tokens V."""
        return self.p.size

    @classmethod
    def from_logits(
        cls,
        target_logits: Any,
        draft_logits: Any,
        n: int,
        *,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        draft_temperature: float | None = None,
        target_top_k: int | None = None,
        target_top_p: float | None = None,
    ) -> Problem:
        """n i.i.d. drafts, from the logits of both models at one position.

        `top_k` and `top_p` shape what is drafted: q is truncated and renormalised, p is not [thomas2025global,
        Appendix N], so the output still has the whole law p, and the tokens outside the truncation are mass that no
        draft can reach.  For a decoder that truncates its output too, pass `target_top_k` and `target_top_p`;
        p is then truncated and renormalised before it is compared with q.

        Parameters
        ----------
        target_logits, draft_logits : array_like or torch tensor, shape (V,)
            Logits, any real dtype; -inf masks a token.
        n : int
            Drafts per position.
        temperature : float
            Of both models; 0 means greedy.
        top_k, top_p : optional
            Truncation of the draft law.
        draft_temperature : float, optional
            Of the draft model, where it differs.
        target_top_k, target_top_p : optional
            Truncation of the target law.

        Raises
        ------
        ProblemError
            If the logits or a setting are out of range; see `otspec.logits.law_from_logits`.
        """
        p, q = laws_from_logits(
            target_logits, draft_logits, temperature, top_k, top_p, draft_temperature, target_top_k, target_top_p
        )
        return cls(p, IID(q, n))

    def bound(self, tokens: ArrayLike) -> float:
        """Upper bound on every verifier's acceptance, certified by one token set H [hu2025towards; GR, Theorem 3.1].

        Whatever the rule, it accepts at most when a draft lies outside H, or when the output lies in H:
        P(some draft outside H) + p(H).

        Parameters
        ----------
        tokens : array_like of int, shape (h,)
            The ids of H.

        Raises
        ------
        ProblemError
            If they are not token ids.
        """
        inside = np.zeros(self.vocab, dtype=bool)
        ids = as_tokens(tokens)
        if ids.size:
            if ids.ndim != 1 or not np.issubdtype(ids.dtype, np.integer):
                raise ProblemError(f"H is {ids.dtype} of shape {ids.shape}; pass its token ids, integers of shape (h,)")
            if ids.min() < 0 or ids.max() >= self.vocab:
                wrong = int(ids.min() if ids.min() < 0 else ids.max())
                raise ProblemError(f"H holds {wrong}; token ids run from 0 to {self.vocab - 1}")
            inside[ids] = True
        order = np.concatenate((np.flatnonzero(~inside), np.flatnonzero(inside)))
        return float(self.scheme.hit_chain(order)[self.vocab - inside.sum()] + self.p[inside].sum())

    def check_drafts(self, drafts: ArrayLike) -> IntArray:
        """One tuple of drafts, shape (n,), checked.

        Raises
        ------
        ProblemError
            If the drafts are not a tuple of the scheme, or have probability 0 under it.
        """
        drafts = as_tuple(drafts, self.n, self.vocab)
        if self.scheme.prob(drafts) == 0:
            raise ProblemError(
                f"drafts {drafts.tolist()} have probability 0 under the scheme; draw them with its sample()"
            )
        return drafts

    def compact(self) -> Compact:
        """The same problem on the tokens that can be drafted, plus one token for all the rest of p.

        With top-k drafts this is k + 1 tokens in place of the vocabulary, and no verifier can tell the difference.
        """
        tokens = self.scheme.reachable()
        reached = np.zeros(self.vocab, dtype=bool)
        reached[tokens] = True
        rest = self.p[~reached].sum()
        return Compact(self, Problem(np.append(self.p[tokens], rest), self.scheme.compact()), tokens)


@dataclass(frozen=True, eq=False)
class Compact:
    """A problem restricted to the tokens that drafts can reach; its last token stands for all others."""

    original: Problem
    problem: Problem
    tokens: IntArray
    """Shape (k,): original ids of the compact tokens 0 .. k - 1."""

    def expand(self, law: ArrayLike) -> FloatArray:
        """A law over the compact tokens as one over the vocabulary: the rest is shared in proportion to p.

        Parameters
        ----------
        law : array_like, shape (k + 1,)
            Probabilities of the compact tokens; the last is the rest.

        Returns
        -------
        ndarray, shape (V,)

        Raises
        ------
        ProblemError
            If it has another shape.
        """
        compact = as_float64("law", law)
        if compact.shape != (self.problem.vocab,):
            raise ProblemError(
                f"law has shape {compact.shape}; one over the compact tokens has ({self.problem.vocab},)"
            )
        full = self.original.p.copy()
        full[self.tokens] = 0.0
        rest = full.sum()
        full *= compact[-1] / rest if rest > 0 else 0.0
        full[self.tokens] = compact[:-1]
        return full
