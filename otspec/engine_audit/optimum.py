"""What no lossless rule can exceed: alpha* of the first drafts of a text, by the exact laws of both models."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from otspec.certificate import upper_bound
from otspec.engine_audit.engine import Drafting
from otspec.engine_audit.judge import Cell
from otspec.engine_audit.laws import Laws, truncated
from otspec.laws import FloatArray
from otspec.problem import Problem
from otspec.schemes.catalogue import named_schemes


class Optima:
    """The optimum after a prompt, and after each first token that follows it.

    Parameters
    ----------
    laws, draft_laws : Laws
        Of the target and of the draft model.
    tolerance : float
        By how much logits of the engine may be off by rounding.
    """

    def __init__(self, laws: Laws, draft_laws: Laws, tolerance: float) -> None:
        self._laws, self._draft_laws, self._tolerance = laws, draft_laws, tolerance
        self._known: dict[tuple[int, int], tuple[float, float]] = {}

    def after(self, cell: Cell, drafting: Drafting, first: Sequence[int]) -> FloatArray:
        """How often a draft can be accepted, for n texts that begin with these tokens.

        Parameters
        ----------
        cell : Cell
            Prompt and sampling.
        drafting : Drafting
        first : sequence of int, length n
            The first token of each text.

        Returns
        -------
        ndarray, shape (2, n)
            By how many tokens of the text are there already, 0 or 1; NaN after a token that ends it.
        """
        new = [token for token in dict.fromkeys(first) if (cell.number, token) not in self._known]
        texts = [(token, token) for token in new]  # nothing is drawn after the second
        both = (laws.along(cell.prompt, texts) for laws in (self._laws, self._draft_laws))
        for token, target, draft in zip(new, *both, strict=True):
            before, behind = (
                optimum(target[place], draft[place], cell, drafting, self._tolerance) for place in range(2)
            )
            self._known[cell.number, token] = before, np.nan if token in self._laws.ends else behind
        return np.array([self._known[cell.number, token] for token in first]).reshape(-1, 2).T


def optimum(target: FloatArray, draft: FloatArray, cell: Cell, drafting: Drafting, tolerance: float) -> float:
    """An upper bound of the chance that a lossless rule accepts a draft; alpha* itself where that is cheap.

    Parameters
    ----------
    target, draft : ndarray, shape (V,)
        Logits; where one model has fewer tokens, it never puts out the others.
    cell : Cell
        Whose sampling the target's law is truncated by.
    drafting : Drafting
    tolerance : float
        1 is returned where rounding within it decides which tokens a law has.
    """
    width = max(target.size, draft.size)
    target, draft = (np.pad(one, (0, width - one.size), constant_values=-np.inf) for one in (target, draft))
    p, undecided = truncated(target, cell.sampling, tolerance)
    if undecided:
        return 1.0
    if drafting.sampling.greedy:  # of tokens that are nearly as likely, rounding decides which is drafted
        return float(p[draft >= draft.max() - tolerance].max())
    q, undecided = truncated(draft, drafting.sampling, tolerance)
    if undecided or np.count_nonzero(q) < drafting.n:
        return 1.0
    return min(upper_bound(Problem(p, named_schemes()[drafting.scheme](q, drafting.n))), 1.0)
