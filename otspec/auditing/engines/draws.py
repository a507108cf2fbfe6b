"""Texts beside the exact law: each token with its probability and its rank, and what a biased rule would have put out.

The *rank* of a token is where it lies in [0, 1] when tokens lie side by side from the likeliest on, each as long as its
probability; a uniform number chooses the point within the token.  Ranks of draws from the law are independent uniform
numbers, whatever the law after each prefix is, so they can be pooled over prefixes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from otspec.auditing.engines.engine import Sampling, Text
from otspec.auditing.engines.laws import Laws, truncated
from otspec.laws import BoolArray, FloatArray, IntArray, draw_from_cumulative

ENDED = -1
"""In place of a token, where a text is over."""


class Draws(NamedTuple):
    """A batch of n texts of at most L tokens."""

    texts: list[tuple[int, ...]]
    tokens: IntArray
    """Shape (n, L); `ENDED` behind the end."""
    p: FloatArray
    """Probability of each token after those before it, shape (n, L); 1 behind the end."""
    ranks: FloatArray
    """Shape (n, L); in [0, 1]."""
    decided: BoolArray
    """Shape (n, L): whether there is a token, and its law does not hang on rounding."""
    support: IntArray
    """How many tokens the law has, shape (n, L)."""
    raw: FloatArray
    """Log-probability of each token by the model, at temperature 1 and not truncated, shape (n, L)."""

    def rows(self, rows: IntArray) -> Draws:
        """Some of the texts, by number, shape (m,)."""
        return Draws(
            [self.texts[row] for row in rows],
            self.tokens[rows],
            self.p[rows],
            self.ranks[rows],
            self.decided[rows],
            self.support[rows],
            self.raw[rows],
        )

    @property
    def known(self) -> BoolArray:
        """The texts of which all laws are decided, shape (n,)."""
        return (self.decided | (self.tokens == ENDED)).all(axis=1)


class ControlledDraws(NamedTuple):
    """What was put out, and beside it what the control would have put out after the same prefixes."""

    drawn: Draws
    control: Draws
    off: FloatArray
    """Total variation of the control's law after each prefix, shape (n, L); NaN where it is not biased."""


def whole(texts: Sequence[Text], length: int, ends: frozenset[int]) -> list[tuple[int, ...]]:
    """The tokens of texts, at most `length`, with the token that ended them where an engine leaves it out."""
    hidden = next(iter(ends)) if len(ends) == 1 else None
    found = []
    for text in texts:
        tokens = text.tokens[:length]
        short = len(tokens) < length and not (tokens and tokens[-1] in ends)
        found.append((*tokens, hidden) if short and text.ended != "length" and hidden is not None else tokens)
    return found


def read(
    laws: Laws,
    prompt: str,
    texts: Sequence[tuple[int, ...]],
    length: int,
    sampling: Sampling,
    *,
    bias: float,
    tolerance: float,
    rng: np.random.Generator,
) -> ControlledDraws:
    """Put texts beside their laws.

    Parameters
    ----------
    laws : Laws
    prompt : str
    texts : sequence of tuples of int
    length : int
        L.
    sampling : Sampling
    bias : float
        Total variation by which the control is off, from its second token on.
    tolerance : float
        As in `truncated`.
    rng : numpy.random.Generator
        For points within tokens, and the control.
    """
    size = (len(texts), length)
    tokens, shown = np.full(size, ENDED, dtype=np.int64), np.full(size, ENDED, dtype=np.int64)
    p, control_p, support = np.ones(size), np.ones(size), np.ones(size, dtype=np.int64)
    ranks, control_ranks, raw = np.zeros(size), np.zeros(size), np.zeros(size)
    decided, off = np.zeros(size, dtype=bool), np.full(size, np.nan)
    rows: dict[tuple[int, ...], list[int]] = {}
    for row, text in sorted(enumerate(texts), key=lambda numbered: numbered[1]):
        rows.setdefault(text, []).append(row)
    first_biased = min(1, length - 1)
    nodes: list[Node] = []  # along the text at hand; the next one begins as it does
    last: tuple[int, ...] = ()
    for text, logits in zip(rows, laws.along(prompt, list(rows)), strict=True):
        mine = np.array(rows[text])
        del nodes[1 + shared(last, text) :]
        last = text
        for place, token in enumerate(text):
            if place == len(nodes):
                nodes.append(Node.of(logits[place], sampling, tolerance, bias if place >= first_biased else 0.0))
            node = nodes[place]
            instead = draw_from_cumulative(node.other, rng, mine.size)
            points = rng.random((2, mine.size))
            tokens[mine, place], p[mine, place] = token, node.law[token]
            shown[mine, place], control_p[mine, place] = instead, node.law[instead]
            ranks[mine, place] = node.above[token] + points[0] * node.law[token]
            control_ranks[mine, place] = node.above[instead] + points[1] * node.law[instead]
            decided[mine, place], support[mine, place] = not node.undecided, node.support
            raw[mine, place] = logits[place, token] - node.total
            if place >= first_biased:
                off[mine, place] = node.off
    listed = list(texts)
    drawn = Draws(listed, tokens, p, np.minimum(ranks, 1.0), decided, support, raw)
    control = Draws(listed, shown, control_p, np.minimum(control_ranks, 1.0), decided, support, raw)
    return ControlledDraws(drawn, control, off)


class Node(NamedTuple):
    """What is known of the tokens after a prefix."""

    law: FloatArray
    """Shape (V,)."""
    above: FloatArray
    """The probability of all likelier tokens, shape (V,)."""
    other: FloatArray
    """The control's law, summed up, shape (V,)."""
    off: float
    """Total variation of the control's law."""
    undecided: bool
    support: int
    total: float
    """What the logits have to be lowered by to be log-probabilities."""

    @classmethod
    def of(cls, logits: FloatArray, sampling: Sampling, tolerance: float, bias: float) -> Node:
        """From logits of shape (V,)."""
        law, undecided = truncated(logits, sampling, tolerance)
        order = np.argsort(-law, kind="stable")
        above = np.empty_like(law)
        above[order] = np.cumsum(law[order]) - law[order]
        other = sharpened(law, bias) if bias else law
        total = float(np.logaddexp.reduce(logits))
        off = float(np.abs(other - law).sum() / 2)
        return cls(law, above, np.cumsum(other), off, undecided, int(np.count_nonzero(law)), total)


def shared(first: Sequence[object], second: Sequence[object]) -> int:
    """How many tokens two texts begin with in common."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((place for place, (one, other) in pairs if one != other), min(len(first), len(second)))


def sharpened(law: FloatArray, bias: float) -> FloatArray:
    """The law of a rule that is off by `bias` in total variation, shape (V,): likely tokens too likely.

    It is mixed of the law and of the law at half the temperature; of the latter alone where that is not so far off.
    """
    sharp = law**2 / (law**2).sum()
    distance = np.abs(sharp - law).sum() / 2
    part = 1.0 if distance <= bias else bias / distance
    mixed: FloatArray = (1 - part) * law + part * sharp
    return mixed
