"""Engines of Python that draft and verify, count their drafts, and say how they draw them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np

from otspec.engine_audit import Acceptance, Drafting, FunctionLaws, Sampling, Text
from otspec.engine_audit.laws import truncated
from otspec.laws import FloatArray
from tests.engine_audit.engines import Faulty, markov

DRAFT = ((0.3, 0.3, 0.4), (0.45, 0.35, 0.2), (0.1, 0.6, 0.3))
"""The draft model's law of a token after each token; the first row is that of the first token, too."""


def draft(before: tuple[int, ...]) -> Sequence[float]:
    return DRAFT[before[-1] if before else 0]


DRAFT_LAWS = FunctionLaws(draft)

Rule = Callable[[float, float], float]
"""From p and q of a draft to the chance that it is accepted."""


def lossless(p: float, q: float) -> float:
    """Of all lossless rules the one that accepts most."""
    return min(1.0, p / q)


def lenient(p: float, q: float) -> float:
    """Takes drafts for half as likely as they are."""
    return min(1.0, 2 * p / q)


def always(p: float, q: float) -> float:
    return 1.0


class Speculative(Faulty):
    """Drafts a token, or several, after each.

    Parameters
    ----------
    rule : callable
    after : int
        How many tokens there are when it first drafts: 0 or 1.
    at_last : bool
        Whether it drafts where one token is left to write: as many as ever then.
    deep : int
        Tokens that are drafted at once.
    likeliest : bool
        Whether it drafts the likeliest tokens.
    says_after, says_positions : bool
        What it tells of its drafts.
    by : callable
        The draft model's law.
    """

    counts: ClassVar[bool] = True

    def __init__(
        self,
        rule: Rule = lossless,
        after: int = 1,
        at_last: bool = True,
        deep: int = 1,
        likeliest: bool = False,
        says_after: bool = True,
        says_positions: bool = True,
        ends: tuple[int, ...] = (),
        by: Callable[[tuple[int, ...]], Sequence[float]] = draft,
    ) -> None:
        super().__init__(ends=ends)
        self._by = by
        self._rule, self._after_tokens, self._at_last, self._deep = rule, after, at_last, deep
        self._likeliest, self._says_after, self._says_positions = likeliest, says_after, says_positions
        self._steps = self._drafted = 0
        self._accepted = np.zeros(deep, dtype=np.int64)

    def drafting(self, sampling: Sampling) -> Drafting | None:
        own = Sampling(0.0) if self._likeliest else sampling
        return Drafting(own, after=self._after_tokens if self._says_after else None)

    def acceptance(self) -> Acceptance | None:
        if not self.counts:
            return None
        positions = tuple(self._accepted.tolist()) if self._says_positions else ()
        return Acceptance(self._steps, self._drafted, int(self._accepted.sum()), positions)

    def texts(self, prompt: str, count: int, length: int, sampling: Sampling, seed: int, *, drafts: bool) -> list[Text]:
        if not drafts or sampling.greedy:
            return super().texts(prompt, count, length, sampling, seed, drafts=drafts)
        self.requests += 1
        rng = np.random.default_rng(seed)
        return [self._text(self._written(length, sampling, rng)) for _ in range(count)]

    def _written(self, length: int, sampling: Sampling, rng: np.random.Generator) -> tuple[int, ...]:
        text: tuple[int, ...] = ()
        while len(text) < length and not self._ends.intersection(text):
            left = length - len(text)
            deep = 0 if len(text) < self._after_tokens else self._deep if self._at_last else min(self._deep, left - 1)
            text = self._step(text, deep, sampling, rng)[:length]
        end = next((place + 1 for place, token in enumerate(text) if token in self._ends), len(text))
        return text[:end]

    def _step(self, text: tuple[int, ...], deep: int, sampling: Sampling, rng: np.random.Generator) -> tuple[int, ...]:
        self._steps += deep > 0
        self._drafted += deep
        for place in range(deep):
            p, q = law(markov(text), sampling), law(self._by(text), Sampling(0.0) if self._likeliest else sampling)
            token = int(rng.choice(3, p=q))
            if rng.random() >= self._rule(p[token], q[token]):
                rest = np.maximum(p - q, 0.0)
                return (*text, int(rng.choice(3, p=rest / rest.sum() if rest.sum() > 0 else p)))
            self._accepted[place] += 1
            text = (*text, token)
        return (*text, int(rng.choice(3, p=law(markov(text), sampling))))


def law(chances: Sequence[float], sampling: Sampling) -> FloatArray:
    """A law under a sampling, shape (3,)."""
    return truncated(np.log(np.array(chances)), sampling, 0.0).law
