"""Laws, or a function that writes texts, as an engine: for tests of one's own code, and of audits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from otspec.engine_audit.engine import Acceptance, Sampling, Text
from otspec.engine_audit.laws import truncated
from otspec.laws import FloatArray, as_law, draw_from_cumulative

NextLaw = Callable[[tuple[int, ...]], Any]
"""From the tokens before to the law of the next, shape (V,)."""


class Function:
    """An engine that draws token by token from laws.

    Parameters
    ----------
    plain, drafted : callable
        The law of the next token, shape (V,), from the tuple of those before: without drafts, and with.
    ends : tuple of int
        Tokens that end a text.

    Examples
    --------
    >>> from otspec.engine_audit import Sampling
    >>> from otspec.engine_audit.adapters.function import Function
    >>> engine = Function(lambda before: [0.0, 1.0], lambda before: [1.0, 0.0])
    >>> engine.texts("", 1, 3, Sampling(), 0, drafts=True)[0].tokens
    (0, 0, 0)
    """

    name, version, method = "function", "0", "laws given by functions"

    def __init__(self, plain: NextLaw, drafted: NextLaw, ends: tuple[int, ...] = ()) -> None:
        self._after = {False: plain, True: drafted}
        self._ends = frozenset(ends)
        self._laws: dict[tuple[bool, Sampling, tuple[int, ...]], FloatArray] = {}

    def texts(self, prompt: str, count: int, length: int, sampling: Sampling, seed: int, *, drafts: bool) -> list[Text]:
        """Texts, each token drawn from the law after those before it."""
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
        return [self._text(tokens) for tokens in found]

    def acceptance(self) -> Acceptance | None:
        """None: nothing is drafted."""
        return None

    def close(self) -> None:
        """Do nothing."""

    def _text(self, tokens: tuple[int, ...]) -> Text:
        ended = "stop" if self._ends.intersection(tokens[-1:]) else "length"
        return Text(tokens, " ".join(map(str, tokens)), None, ended)

    def _cumulative(self, drafts: bool, sampling: Sampling, tokens: tuple[int, ...]) -> FloatArray:
        """The law after some tokens, summed up, shape (V,)."""
        key = drafts, sampling, tokens
        if key not in self._laws:
            with np.errstate(divide="ignore"):
                logits = np.log(as_law("the law", self._after[drafts](tokens)))
            self._laws[key] = np.cumsum(truncated(logits, sampling, 0.0).law)
        return self._laws[key]
