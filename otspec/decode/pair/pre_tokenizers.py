r"""Pre-tokenizers that GGUF files name: how text is split before byte pairs are merged.

``tokenizer.ggml.pre`` of a file is a name, and what it stands for is written in llama.cpp alone (`llama-vocab.cpp`,
`llm_tokenizer_bpe`): a list of regular expressions, each of which isolates its matches in the pieces of the one before.
Where llama.cpp writes out what its engine lacks (cases of letters, a flag), the expression here is the model's own.
"""

from __future__ import annotations

from typing import Any

from tokenizers import Regex
from tokenizers.pre_tokenizers import ByteLevel, PreTokenizer, Sequence, Split

from otspec.errors import DataError

DEFAULT = "default"
"""What llama.cpp takes where a file names none."""

_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"
_SHORT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_LLAMA3 = rf"{_SHORT}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_SPACES}"
_QWEN2 = rf"{_SHORT}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_SPACES}"
_QWEN35 = rf"{_SHORT}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{_SPACES}"
_SEED_CODER = rf"{_SHORT}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}| ?[^\s\p{{L}}\p{{N}}\r\n]+|{_SPACES}"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_CASED = [rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+", rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*"]
_SIGNS = rf" ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_SPACES}"
_TEKKEN = rf"{_CASED[0]}|{_CASED[1]}|\p{{N}}|{_SIGNS}"
_GPT4O = rf"{_CASED[0]}{_SHORT}?|{_CASED[1]}{_SHORT}?|\p{{N}}{{1,3}}|{_SIGNS}"
_CASED_RANGES = (
    "41-5A 61-7A B5 C0-D6 D8-F6 F8-1BA 1BC-1BF 1C4-293 295-2AF 370-373 376 377 37B-37D 37F 386 388-38A 38C "
    "38E-3A1 3A3-3F5 3F7-481 48A-52F 531-556 10A0-10C5 13A0-13F5 13F8-13FD 1C90-1CBA 1CBD-1CBF 1D00-1D2B "
    "1D6B-1D77 1D79-1D9A 1E00-1F15 1F18-1F1D 1F20-1F45 1F48-1F4D 1F50-1F57 1F59 1F5B 1F5D 1F5F-1F7D 1F80-1FB4 "
    "1FB6-1FBC 1FBE 1FC2-1FC4 1FC6-1FCC 1FD0-1FD3 1FD6-1FDB 1FE0-1FEC 1FF2-1FF4 1FF6-1FFC 2102 2107 210A-2113 "
    "2115 2119-211D 2124 2126 2128 212A-212D 212F-2134 2139 213C-213F 2145-2149 214E 2183 2184 2C00-2C7B "
    "2C7E-2CE4 2CEB-2CEE 2CF2 2CF3 A640-A66D A680-A69B A722-A76F A771-A787 A78B-A78E AB70-ABBF FB00-FB06 "
    "FB13-FB17 FF21-FF3A FF41-FF5A 10400-1044F 104B0-104D3 104D8-104FB 10C80-10CB2 10CC0-10CF2 118A0-118DF "
    "1E900-1E943"
)
"""Code points of deepseek-llm's letters, first and last of each range: some change if a tool normalises the source."""
_LATIN = "".join("-".join(chr(int(end, 16)) for end in ends.split("-")) for ends in _CASED_RANGES.split())
_ASIAN = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
_KANA = "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"
_ASCII_SIGNS = r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~]"""
_DEEPSEEK3 = (
    rf"{_ASCII_SIGNS}[A-Za-z]+|[^\r\n\p{{L}}\p{{P}}\p{{S}}]?[\p{{L}}\p{{M}}]+| ?[\p{{P}}\p{{S}}]+[\r\n]*|{_SPACES}"
)
_WORDS = " ?[^(\\s|.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c)]+"

_RULES = {
    "default": [r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", "[0-9][0-9][0-9]"],
    (
        "gpt-2 phi-2 jina-es jina-de gigachat jina-v2-es jina-v2-de a.x-4.0 mellum modern-bert exaone4 mpt "
        "olmo jais trillion granite-docling"
    ): [_GPT2],
    "smollm starcoder refact command-r codeshell exaone minerva-7b mellum2": [r"\p{N}", _GPT2],
    "llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 dbrx smaug-bpe glm4 chatglm-bpe": [_LLAMA3],
    "qwen2 deepseek-r1-qwen kormo f2llmv2 megrez stablelm2 hunyuan solar-open grok-2": [_QWEN2],
    "qwen35": [_QWEN35],
    "seed-coder": [_SEED_CODER],
    "deepseek-llm": [
        r"[\r\n]",
        rf"\s?[{_LATIN}]+",
        "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+",
        r"\s+$",
        _ASIAN,
        r"\p{N}+",
    ],
    "deepseek-coder": [r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _ASIAN, r"\p{N}"],
    "deepseek-v3 hunyuan-dense joyai-llm hy_v4": [r"\p{N}{1,3}", _KANA, _DEEPSEEK3],
    "falcon": [r"[\p{P}\$\+<=>\^~\|`]+", _GPT2, "[0-9][0-9][0-9]"],
    "bloom poro-chat gpt3-finnish": [_WORDS],
    "viking": [_WORDS, r"\p{N}"],
    "tekken": [_TEKKEN],
    "gpt-4o llama4 kanana2 talkie minimax-m2": [_GPT4O],
}

RULES = {name: rules for names, rules in _RULES.items() for name in names.split()}
"""The regular expressions that each name stands for, first to last."""

WHOLE = frozenset({"llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "tekken"})
"""Names whose pieces are one token where the vocabulary has them, whatever the merges are."""


def pre_tokenizer(name: str) -> PreTokenizer:
    """What splits text for the byte pairs of a file.

    Parameters
    ----------
    name : str
        ``tokenizer.ggml.pre`` of the file.

    Returns
    -------
    PreTokenizer
        Matches of each regular expression isolated, then bytes as the characters that stand for them.

    Raises
    ------
    DataError
        If the name is not known.
    """
    if name not in RULES:
        raise DataError(f"its tokenizer splits text by {name!r}, which is not known; known: {', '.join(sorted(RULES))}")
    splits = [Split(Regex(rule), behavior="isolated") for rule in RULES[name]]
    return Sequence([*splits, ByteLevel(add_prefix_space=False, use_regex=False)])


def set_pre_tokenizer(tokenizer: Any, name: str) -> None:
    """Have a byte-level tokenizer of transformers split text by the rules of its file.

    Raises
    ------
    DataError
        If the name is not known.
    """
    backend = tokenizer.backend_tokenizer
    backend.pre_tokenizer = pre_tokenizer(name)
    backend.model.ignore_merges = name in WHOLE
