"""Engines of Python whose law is known, and their faults."""

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np

from otspec.auditing.engines import Acceptance, FunctionLaws, Sampling, Text
from otspec.auditing.engines.laws import truncated
from otspec.laws import FloatArray, as_law, draw_from_cumulative

MARKOV = ((0.6, 0.3, 0.1), (0.2, 0.5, 0.3), (0.25, 0.25, 0.5))
"""The law of a token after each token; the first row is that of the first token, too."""
END = 2

QUICK: dict[str, Any] = {"texts": 3000, "length": 3, "control_bias": 0.1, "greedy_length": 6}


def markov(before: tuple[int, ...]) -> Sequence[float]:
    return MARKOV[before[-1] if before else 0]


LAWS = FunctionLaws(markov)


def biased_at(position: int) -> Callable[[tuple[int, ...]], Sequence[float]]:
    """The Markov law, off by 0.3 at one position."""

    def law(before: tuple[int, ...]) -> Sequence[float]:
        first, second, third = markov(before)
        moved = min(0.3, second + third)
        part = moved / (second + third)
        return (
            (first + moved, second * (1 - part), third * (1 - part)) if len(before) == position - 1 else markov(before)
        )

    return law


NextLaw = Callable[[tuple[int, ...]], Any]
"""From the tokens before to the law of the next, shape (V,)."""


class Faulty:
    """An engine that draws token by token from laws, plain or with drafts, and then changes its texts with drafts.

    It may tell log-probabilities, which are right, or characters in place of tokens.
    """

    name, version, method = "laws", "0", "laws given by functions"

    def __init__(
        self,
        change: Callable[[list[Text], Sampling], list[Text]] = lambda texts, sampling: texts,
        ends: tuple[int, ...] = (),
        with_logprobs: bool = False,
        in_characters: bool = False,
        plain: NextLaw = markov,
        drafted: NextLaw = markov,
    ) -> None:
        self._after, self._ends = {False: plain, True: drafted}, frozenset(ends)
        self._change, self._with_logprobs, self._in_characters = change, with_logprobs, in_characters
        self._laws: dict[tuple[bool, Sampling, tuple[int, ...]], FloatArray] = {}
        self.requests = 0

    def texts(self, prompt: str, count: int, length: int, sampling: Sampling, seed: int, *, drafts: bool) -> list[Text]:
        """Texts, each token drawn from the law after those before it."""
        self.requests += 1
        rng = np.random.default_rng(seed)
        found: list[tuple[int, ...]] = [()] * count
        for _ in range(length):
            rows: dict[tuple[int, ...], list[int]] = {}
            for row, tokens in enumerate(found):
                if not self._ends.intersection(tokens[-1:]):
                    rows.setdefault(tokens, []).append(row)
            for tokens, mine in rows.items():
                drawn = draw_from_cumulative(self._cumulative(drafts, sampling, tokens), rng, len(mine))
                for row, token in zip(mine, drawn.tolist(), strict=True):
                    found[row] = (*tokens, token)
        texts = [self._text(tokens) for tokens in found]
        texts = self._change(texts, sampling) if drafts else texts
        if self._in_characters:
            return [Text((), "".join("abc"[token] for token in text.tokens), None, text.ended) for text in texts]
        return texts

    def acceptance(self) -> Acceptance | None:
        """None: nothing is drafted."""
        return None

    def close(self) -> None:
        """Do nothing."""

    def _text(self, tokens: tuple[int, ...]) -> Text:
        ended = "stop" if self._ends.intersection(tokens[-1:]) else "length"
        shown = logprobs(tokens) if self._with_logprobs else None
        return Text(tokens, " ".join(map(str, tokens)), shown, ended)

    def _cumulative(self, drafts: bool, sampling: Sampling, tokens: tuple[int, ...]) -> FloatArray:
        """The law after some tokens, summed up, shape (V,)."""
        key = drafts, sampling, tokens
        if key not in self._laws:
            with np.errstate(divide="ignore"):
                logits = np.log(as_law("the law", self._after[drafts](tokens)))
            self._laws[key] = np.cumsum(truncated(logits, sampling, 0.0).law)
        return self._laws[key]


class Telling(Faulty):
    """One that says what became of its drafts."""

    def acceptance(self) -> Acceptance:
        return Acceptance(10, 30, 15, (8, 5, 2))


def logprobs(tokens: tuple[int, ...]) -> tuple[float, ...]:
    return tuple(math.log(markov(tokens[:place])[token]) for place, token in enumerate(tokens))


def texts_with_probability(length: int) -> Iterator[tuple[tuple[int, ...], float]]:
    """Every text of the Markov law."""
    for tokens in product(range(3), repeat=length):
        yield tokens, math.exp(sum(logprobs(tokens)))
