"""A case, one instance of laws that a rule is tried on, and what the rule does there: its law, or draws."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, cast

import numpy as np

from otspec.auditing.outcome import Figures
from otspec.laws import FloatArray, IntArray

TEXT = 2
"""Tokens, or steps, of a text: enough to see that one depends on the other."""

MAX_NUMBERS = 1 << 20
"""Probabilities that one batch of calls is handed."""


class Case(Protocol):
    """One instance of laws that a rule is tried on: a position with its drafts, or the texts of a small model."""

    @property
    def name(self) -> str:
        """Name in the report."""

    @property
    def vocab(self) -> int:
        """Number of tokens V."""

    @property
    def outputs(self) -> str:
        """What the law p is of, in words."""

    def spelt(self, output: int) -> str:
        """The token or the text that has this place in p."""

    @property
    def n(self) -> int:
        """Drafts of a position, or paths of a tree."""

    @property
    def length(self) -> int:
        """Drafted tokens that a draw can accept: 1 of a position, L of a tree."""

    @property
    def p(self) -> FloatArray:
        """Law that the output should have, shape (V,): of a token, or of a text."""

    @property
    def q(self) -> FloatArray:
        """Law that the drafts are made from, shape (V,) or (n, V)."""

    @property
    def shown(self) -> FloatArray:
        """Law that the rule is shown in place of `q`, of the same shape."""

    @property
    def after(self) -> tuple[FloatArray, FloatArray]:
        """Target and draft laws after each prefix of a text, shorter ones first, both of shape (prefixes, V)."""

    @property
    def declared_law(self) -> FloatArray | None:
        """The declared law of what `Sample.drafts` counts; None where the audit draws the drafts itself."""

    @property
    def enumerable(self) -> bool:
        """Whether all drafts are few enough to be listed."""

    @property
    def optimum(self) -> float | None:
        """The largest `membership` of any lossless rule; None if it is not known."""

    def figures(self, measured: Mapping[str, Any]) -> Figures:
        """The figures of this case, from what was measured."""


@dataclass(frozen=True, eq=False)
class Law:
    """What a rule does on one case, summed over all drafts."""

    output: FloatArray
    """Exact law of the output, of the shape of the case's `p`."""
    membership: float
    """The mean share of `Case.length` that is accepted."""
    reported: float | None = None
    """P(the rule reports that it accepted a draft); None if it does not report."""
    drafts_tv: float | None = None
    """Total variation of the law of the drafts to the declared one; None where they are the same by construction."""


class Sample(NamedTuple):
    """Draws on one case, in texts of two after each other."""

    outputs: IntArray
    """Shape (texts, 2): numbers of what p is a law of."""
    accepted: IntArray
    """Shape (length + 1,): draws that put out 0, 1, ... drafted tokens; their mean share is `Case.optimum` at most."""
    reported: int | None
    """Draws for which the rule reports that it accepted a draft; None if it does not report."""
    drafts: IntArray | None = None
    """Shape (texts,): the place of the first step's drafts in `Case.declared_law`; None where that is None."""
    passed: IntArray | None = None
    """How often each token is put out after each prefix of `Case.after`, shape (prefixes, V); None for positions."""


def draw_each(cumulative: FloatArray, rng: np.random.Generator) -> IntArray:
    """One draw from each law, by its cumulative sum: shapes (..., V) and (...); probability 0 is never drawn."""
    total = cumulative[..., -1:]
    below = (cumulative <= rng.random(total.shape) * total).sum(axis=-1)
    return cast(IntArray, np.minimum(below, (cumulative < total).sum(axis=-1)))
