"""Where a grammar stands after a text, by the packages that compile grammars: each can go on by a token, and back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from otspec.extras import require

BitMasks: TypeAlias = NDArray[np.int32]
"""As these packages have them: bit i % 32 of number i // 32 says whether token i is allowed."""
WORD = 32
"""Tokens of one number of a bit mask."""


class Matcher(Protocol):
    """A grammar, and where it stands; at first at its beginning."""

    def accept(self, token: int) -> bool:
        """Go on by a token; if the grammar does not, or ends there, stay and say so."""

    def back(self, count: int) -> None:
        """Go back by so many tokens."""

    def allowed(self) -> BitMasks:
        """Which tokens may come next, the end of the text among them; shape (any,), and no others may."""


class XGrammar:
    """A matcher of xgrammar's.

    Parameters
    ----------
    compiled : xgrammar.CompiledGrammar
    """

    def __init__(self, compiled: Any) -> None:
        xgrammar = require("xgrammar")
        self._matcher = xgrammar.GrammarMatcher(compiled)
        self._mask = xgrammar.allocate_token_bitmask(1, compiled.tokenizer_info.vocab_size)

    def accept(self, token: int) -> bool:
        """As `Matcher.accept`."""
        if not self._matcher.accept_token(token):
            return False
        if self._matcher.is_terminated():
            self._matcher.rollback(1)
            return False
        return True

    def back(self, count: int) -> None:
        """As `Matcher.back`."""
        self._matcher.rollback(count)

    def allowed(self) -> BitMasks:
        """As `Matcher.allowed`, shape (words,)."""
        self._matcher.fill_next_token_bitmask(self._mask)
        mask: BitMasks = self._mask[0].numpy()
        return mask


class LLGuidance:
    """A matcher of llguidance's.

    Parameters
    ----------
    tokenizer : llguidance.LLTokenizer
    grammar : str
        As llguidance spells it.
    """

    def __init__(self, tokenizer: Any, grammar: str) -> None:
        self._matcher = require("llguidance").LLMatcher(tokenizer, grammar)
        self._ends = {tokenizer.eos_token, *tokenizer.eos_tokens}

    def accept(self, token: int) -> bool:
        """As `Matcher.accept`."""
        return token not in self._ends and self._matcher.try_consume_tokens([token]) == 1

    def back(self, count: int) -> None:
        """As `Matcher.back`."""
        self._matcher.rollback(count)

    def allowed(self) -> BitMasks:
        """As `Matcher.allowed`, shape (words,)."""
        return np.frombuffer(self._matcher.compute_bitmask(), dtype=np.int32)


class OutlinesCore:
    """An automaton of outlines_core's, which says for any state where a token leads.

    Parameters
    ----------
    index : outlines_core.Index
    """

    def __init__(self, index: Any) -> None:
        self._index = index
        self._states = [index.get_initial_state()]
        self._masks: dict[int, BitMasks] = {}

    def accept(self, token: int) -> bool:
        """As `Matcher.accept`."""
        state = self._index.get_next_state(self._states[-1], token)
        if state is not None:
            self._states.append(state)
        return state is not None

    def back(self, count: int) -> None:
        """As `Matcher.back`."""
        del self._states[len(self._states) - count :]

    def allowed(self) -> BitMasks:
        """As `Matcher.allowed`, shape (words,); made once for each state."""
        state = self._states[-1]
        if state not in self._masks:
            tokens = np.array(self._index.get_allowed_tokens(state) or [], dtype=np.int64)
            bits = np.zeros((int(tokens.max(initial=-1)) // WORD + 1) * WORD, dtype=np.uint8)
            bits[tokens] = 1
            self._masks[state] = np.packbits(bits, bitorder="little").view("<i4").astype(np.int32)
        return self._masks[state]


Make = Callable[[], Matcher]


def _compiled(compiled: Any) -> list[Make]:
    each: Sequence[Any] = compiled if isinstance(compiled, list) else [compiled]
    return [lambda one=one: XGrammar(one) for one in each]  # type: ignore[misc]  # mypy does not infer lambdas' defaults


KNOWN: dict[str, Callable[[Any], list[Make]]] = {
    "xgrammar.contrib.hf.LogitsProcessor": lambda one: _compiled(one.compiled_grammars),
    "outlines.backends.xgrammar.XGrammarLogitsProcessor": lambda one: _compiled(one.compiled_grammar),
    "outlines.backends.llguidance.LLGuidanceLogitsProcessor": lambda one: [
        lambda: LLGuidance(one.llg_tokenizer, one.grammar)
    ],
    "outlines.backends.outlines_core.OutlinesCoreLogitsProcessor": lambda one: [lambda: OutlinesCore(one.index)],
}
"""Processors around grammars, by their classes, and what makes matchers of one: for all texts, or for each of them."""
