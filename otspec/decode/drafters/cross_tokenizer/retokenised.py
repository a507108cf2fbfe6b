"""Texts of a target in the tokens of a draft model with another tokenizer, as they grow."""

from __future__ import annotations

from collections.abc import Sequence

from otspec.decode.models.tokens.matching import Matching


class Retokenised:
    """A text of the target's in the draft model's tokens, by its bytes, as it grows.

    When it has grown, its last word is read anew: the tokens before are those of the whole text.
    """

    def __init__(self, matching: Matching) -> None:
        self.matching = matching
        self.final: list[int] = list(matching.draft.begin)
        """Tokens that no longer change."""
        self._open = b""
        self._taken = 0
        self._is_first, self._prepended = True, matching.target.prepends

    def extend(self, text: Sequence[int]) -> list[int]:
        """The draft model's tokens of a text that begins with what was given before; at least one."""
        target, draft = self.matching.target, self.matching.draft
        begin = target.begin
        if not self._taken and list(text[: len(begin)]) == begin:
            self._taken = len(begin)
        for token in text[self._taken :]:
            spelt = target.bytes_of.get(token)
            if spelt is None:
                self._close(draft.encode(self._open))
                if token in self.matching.special:
                    self.final.append(self.matching.special[token])
            else:
                self._open += self._first(spelt) if self._is_first else spelt
        self._taken = len(text)
        *words, last = draft.words(self._open)
        for word in words:
            self.final += draft.encode_word(word)
        self._open = last
        return [*self.final, *draft.encode_word(last)] or [draft.blank]

    def _close(self, tokens: Sequence[int]) -> None:
        self.final += tokens
        self._open = b""

    def _first(self, spelt: bytes) -> bytes:
        """The first bytes of a text: without the space that the one tokenizer puts there, with that of the other."""
        if self._prepended:
            spelt, self._prepended = spelt.removeprefix(b" "), False
        self._is_first = not spelt
        return b" " + spelt if self.matching.draft.prepends and spelt[:1] not in (b"", b" ") else spelt
