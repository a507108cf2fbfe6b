"""Pre-tokenizers of GGUF files: pieces by hand, and by another engine from the expressions as llama.cpp spells them."""

from __future__ import annotations

import pytest
import regex

from otspec.decode.pair.pre_tokenizers import RULES, pre_tokenizer
from tests.each import each

SHORT = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
WORD = r"|[^\r\n\p{L}\p{N}]?\p{L}+"
REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
AS_SPELLED = {"llama-bpe": [SHORT + WORD + r"|\p{N}{1,3}" + REST], "qwen2": [SHORT + WORD + r"|\p{N}" + REST]}
"""Expressions of llama.cpp's `llm_tokenizer_bpe` that are spelled otherwise here."""
TEXTS = (
    "",
    "\t\tdef f(x):\n    return x + 12345\n\n\n",
    "We'll see: it's HE'S 'tis, don't; I'D.",
    "a\r\n\r\nb \r\n  c",
    "3.14159 1,000,000 0x1F 12 345",
    "price: $5 <= x^2 ~ `code` | done...!?",
    "naïve café ÀÉÎ ǅ ϕ Ω \u212b \u1fd3 Кирилл ქართული",
    "日本語のテキスト、中文。한국어 العربية؟ हिन्दी",
    "camelCase HTTPServer iPhone ÉCOLE a/b/c //\n",
    "  leading and trailing   ",
    "\u00a0no\u2003break\u3000spaces",
    "½ ² ④ Ⅷ ٣",
    "🙂🙂 ok 👩\u200d💻",
    "a" + " " * 40 + "b" + "\n" * 9 + "7" * 11,
)


def pieces_by(rules: list[str], text: str) -> list[str]:
    """Matches isolated in the pieces of the expression before, as llama.cpp's `unicode_regex_split` has it."""
    pieces = [text]
    for rule in rules:
        split = []
        for piece in pieces:
            at = 0
            for match in regex.finditer(rule, piece):
                split += [piece[at : match.start()], match.group()]
                at = match.end()
            split.append(piece[at:])
        pieces = [piece for piece in split if piece]
    return pieces


def pieces_of(name: str, text: str) -> list[str]:
    """The pieces of a text by our pre-tokenizer."""
    return [text[start:end] for _, (start, end) in pre_tokenizer(name).pre_tokenize_str(text)]


@each(rules=[*RULES.items(), *AS_SPELLED.items()])
def test_pieces_are_those_of_the_rules(rules: tuple[str, list[str]]) -> None:
    for text in TEXTS:
        assert pieces_of(rules[0], text) == pieces_by(rules[1], text), text


@pytest.mark.parametrize(
    ("name", "text", "pieces"),
    [
        ("default", "a$ 12345", ["a", "$", " ", "123", "45"]),
        ("gpt-2", "x =   10", ["x", " =", "  ", " 10"]),
        ("smollm", "x =   10", ["x", " =", "   ", "1", "0"]),
        ("falcon", "a`b 1234", ["a", "`", "b", " ", "123", "4"]),
        ("deepseek-coder", "a, b 12\n", ["a", ",", " b", " ", "1", "2", "\n"]),
        ("deepseek-llm", "a, b\u00e9 \u03a9 1234", ["a", ",", " b", "\u00e9", " \u03a9", " ", "1234"]),
        ("deepseek-v3", "a.b 1234", ["a", ".b", " ", "123", "4"]),
        ("tekken", "HTTPServer 12", ["HTTPServer", " ", "1", "2"]),
        ("gpt-4o", "don't 1234", ["don't", " ", "123", "4"]),
        ("bloom", "a b, c", ["a", " b", ",", " c"]),
    ],
)
def test_pieces_by_hand(name: str, text: str, pieces: list[str]) -> None:
    """Of rules that are not spelled above."""
    assert pieces_of(name, text) == pieces
