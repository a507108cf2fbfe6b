"""Tokens as bytes, and bytes as tokens: what two tokenizers have in common is the text, and no id."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from otspec.errors import ProblemError

SPACE = "\u2581"
"""What stands for a space in the tokens of SentencePiece."""
PROBE = "def F(x):\n    return 'é ≠ 中' + x[3:14]  # or\tnone\n"
"""A text that every tokenizer taken here gives back."""
ROLES = ("eos", "bos", "pad")
"""Special tokens that are identified by their roles; the others by their names."""
MEMORY = 1 << 16
"""Words whose tokens are cached."""
LONG = 64
"""Bytes of the longest word that is."""


class Spelling:
    """The bytes of a tokenizer's tokens, and its tokens of any bytes.

    Of two kinds of tokenizers the bytes are known: those that work on bytes (GPT-2 and after), and those of
    SentencePiece that fall back on bytes (Llama 2).  A text is tokenized without what a tokenizer does to it before:
    special tokens that are written out stay text, and nothing is normalised.  Where a part of a text does not come back
    as it was, and where it is not UTF-8, its bytes are tokens.

    Parameters
    ----------
    tokenizer : PreTrainedTokenizerBase
        One of transformers' fast tokenizers.
    whose : str
        The user's name for it.

    Raises
    ------
    ProblemError
        If it is not a fast one, or the bytes of its tokens are not known, or some byte of `PROBE` has no token.
    """

    def __init__(self, tokenizer: Any, whose: str) -> None:
        backend = getattr(tokenizer, "backend_tokenizer", None)
        if backend is None:
            raise ProblemError(
                f"the {whose}, {_called(tokenizer)}, is no fast tokenizer, and the bytes of its tokens are not known; "
                "load it with AutoTokenizer, which gives a fast one where there is one"
            )
        self._model = backend.model
        kinds = set(re.findall(r'"type":"(\w+)"', _state(backend.decoder) + _state(backend.pre_tokenizer)))
        self._of_bytes = "ByteLevel" in kinds
        if not self._of_bytes and not getattr(self._model, "byte_fallback", False):
            raise ProblemError(
                f"the {whose}, {_called(tokenizer)}, neither works on bytes nor falls back on them, so that a text may "
                "lose something in it; a drafter needs a byte-level tokenizer, or the target's own"
            )
        self._splits = _without_prefix(backend.pre_tokenizer)
        self._alphabet = _alphabet()
        self._read_vocabulary(backend, tokenizer)
        self._whose = f"{whose}, {_called(tokenizer)}"
        self.cuts_words = not any(_SPACE_INSIDE.search(spelt) for spelt in self.bytes_of.values())
        """Whether every token ends where a word does."""
        self._remembered = lru_cache(maxsize=MEMORY)(self._tokens_of_word)
        self._check(backend, tokenizer, whose)

    def _read_vocabulary(self, backend: Any, tokenizer: Any) -> None:
        added = backend.get_added_tokens_decoder()
        named = {role: getattr(tokenizer, f"{role}_token_id", None) for role in ROLES}
        special = {number: token.content for number, token in added.items() if token.special}
        special |= {number: backend.id_to_token(number) for number in named.values() if number is not None}
        self.special: Mapping[int, str] = special
        """Tokens that are no text, by id: their names."""
        self.roles: Mapping[str, int] = {role: number for role, number in named.items() if number is not None}
        """The special tokens of `ROLES`, as far as there are any."""
        self.bytes_of: dict[int, bytes] = {}
        """What each token spells, by id; special ones spell nothing."""
        self.ids: dict[bytes, int] = {}
        """The token of each spelling that there is one for; a byte's own where no other spells it."""
        as_bytes: dict[bytes, int] = {}
        whole: dict[str, int] = {}
        vocabulary = backend.get_vocab(with_added_tokens=True).items()
        # In no order of their own; of two tokens that spell the same the added one is that which is written.
        for surface, number in sorted(vocabulary, key=lambda one: (one[1] in added, one[1])):
            if number in special:
                continue
            if number in added:
                whole[surface] = number
            spelt = surface.encode() if number in added and self._of_bytes else self._spelt(surface)
            if not spelt:
                continue
            self.bytes_of[number] = spelt
            is_byte = not self._of_bytes and _BYTE.fullmatch(surface) is not None
            (as_bytes if is_byte else self.ids)[spelt] = number
        self.ids = {**as_bytes, **self.ids}
        self._whole = whole
        in_turn = "|".join(re.escape(text) for text in sorted(whole, key=len, reverse=True))
        self._at_whole = re.compile(f"({in_turn})") if whole else None

    def _spelt(self, surface: str) -> bytes | None:
        """The bytes of a token, None where it has none."""
        if self._of_bytes:
            found = [self._alphabet.get(letter) for letter in surface]
            return None if None in found else bytes(byte for byte in found if byte is not None)
        if byte := _BYTE.fullmatch(surface):
            return bytes([int(byte[1], 16)])
        return surface.replace(SPACE, " ").encode()

    def _check(self, backend: Any, tokenizer: Any, whose: str) -> None:
        """Compare with the tokenizer itself, and see what it puts before a text."""

        def tokens(text: str) -> tuple[int, ...]:
            return tuple(backend.encode(text, add_special_tokens=False).ids)

        self._check_bytes(PROBE.encode())
        found = tokens(PROBE)
        spelt = b"".join(self.bytes_of.get(number, b"") for number in found)
        self.prepends = spelt.startswith(b" ")
        """Whether it puts a space before a text that begins with none."""
        if spelt != b" " * self.prepends + PROBE.encode() or self.encode(spelt) != list(found):
            raise ProblemError(
                f"the {whose}, {_called(tokenizer)}, does not give a text back byte by byte ({PROBE!r} becomes "
                f"{spelt!r}); a drafter needs a byte-level tokenizer, or the target's own"
            )
        whole, plain = list(tokenizer(PROBE).input_ids), list(found)
        first = next((at for at in range(len(whole)) if whole[at : at + len(plain)] == plain), 0)
        self.begin: list[int] = whole[:first]
        """The special tokens that it puts before a text."""
        self.blank: int = self.begin[0] if self.begin else next(iter(self.roles.values()), self.ids[b" "])
        """What stands for a text without tokens."""

    def check_every_byte(self) -> None:
        """Make sure that any text has tokens.

        Raises
        ------
        ProblemError
            If there is none for some byte, as for control characters in some vocabularies.
        """
        self._check_bytes(range(256))

    def _check_bytes(self, data: Iterable[int]) -> None:
        for byte in data:
            self._of_byte(byte)

    def _of_byte(self, byte: int) -> int:
        token = self.ids.get(bytes([byte]))
        if token is None:
            raise ProblemError(
                f"the {self._whose}, has no token for the byte {byte:#04x}; a drafter needs one for each of the 256, "
                "and a text one for each of its own"
            )
        return token

    def encode(self, data: bytes) -> list[int]:
        """The tokens of these bytes, which spell them exactly.

        Raises
        ------
        ProblemError
            If there is no token for one of them.
        """
        return [token for word in self.words(data) for token in self.encode_word(word)]

    def words(self, data: bytes) -> list[bytes]:
        """Parts that are tokenized one by one, each after the first begun by a space that follows something else.

        More text after it does not change where a text was parted.  One part where tokens reach across words.
        """
        return _BETWEEN_WORDS.split(data) if self.cuts_words else [data]

    def encode_word(self, word: bytes) -> tuple[int, ...]:
        """The tokens of one of the `words`."""
        return self._remembered(word) if len(word) <= LONG else self._tokens_of_word(word)

    def _tokens_of_word(self, word: bytes) -> tuple[int, ...]:
        tokens: list[int] = []
        for number, run in enumerate(_NOT_UTF8.split(word.decode("utf-8", "surrogateescape"))):
            if number % 2 == 0:
                tokens += self._tokens_of_text(run)
            elif self._of_bytes:
                letters = {byte: letter for letter, byte in self._alphabet.items()}
                surface = "".join(letters[byte] for byte in run.encode("utf-8", "surrogateescape"))
                tokens += (token.id for token in self._model.tokenize(surface))
            else:
                tokens += map(self._of_byte, run.encode("utf-8", "surrogateescape"))
        if b"".join(self.bytes_of.get(token, b"") for token in tokens) == word:
            return tuple(tokens)
        return tuple(map(self._of_byte, word))

    def _tokens_of_text(self, text: str) -> list[int]:
        tokens: list[int] = []
        for part in [text] if self._at_whole is None else self._at_whole.split(text):
            if part in self._whole:
                tokens.append(self._whole[part])
            elif part:
                surface = part if self._of_bytes else part.replace(" ", SPACE)
                parted = [(surface, ())] if self._splits is None else self._splits.pre_tokenize_str(surface)
                tokens += (token.id for piece, _ in parted for token in self._model.tokenize(piece))
        return tokens


_SPACE_INSIDE = re.compile(rb"\S ")
_BETWEEN_WORDS = re.compile(rb"(?<=\S)(?= )")
_NOT_UTF8 = re.compile("([\udc80-\udcff]+)")
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")


def _alphabet() -> dict[str, int]:
    """The byte that each letter of byte-level tokens stands for: itself, or, past 255, the next that is left."""
    from tokenizers.pre_tokenizers import ByteLevel

    letters = sorted(ByteLevel.alphabet())
    own = {ord(letter) for letter in letters}
    left = iter(byte for byte in range(256) if byte not in own)
    return {letter: ord(letter) if ord(letter) < 256 else next(left) for letter in letters}


def _state(part: Any) -> str:
    """A part of a tokenizer as JSON."""
    return "" if part is None else part.__getstate__().decode()


def _without_prefix(splits: Any) -> Any:
    """The splits of a text, without a space put before it."""
    if splits is None:
        return None
    off: Mapping[str, Any] = {"add_prefix_space": False, "prepend_scheme": "never"}

    def switched(part: dict[str, Any]) -> dict[str, Any]:
        return part | {name: value for name, value in off.items() if name in part}

    plain = copy.deepcopy(splits)
    plain.__setstate__(json.dumps(json.loads(_state(splits), object_hook=switched)).encode())
    return plain


def _called(tokenizer: Any) -> str:
    name = getattr(tokenizer, "name_or_path", "")
    return f"{type(tokenizer).__name__}{f' of {name}' if name else ''}"
