"""Small tokenizers of several kinds, trained on this file or put together by hand."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
"""How the tokenizer of Llama 3 parts a text."""
TEXT = Path(__file__).read_text() + "é ≠ 中文 中 'tis not\r\n\r\n" * 20


@cache
def byte_level(
    vocab: int,
    special: tuple[str, ...] = ("<begin>", "<end>"),
    kind: str = "gpt2",
    begins: bool = True,
    lacking: bytes = b"",
) -> Any:
    """Byte pairs of bytes, but for some control codes; the first special token begins a text, the second ends it."""
    made: Any = Tokenizer(models.BPE())
    if kind == "llama3":
        parted = pre_tokenizers.Split(Regex(LLAMA3), "isolated")
        made.pre_tokenizer = pre_tokenizers.Sequence([parted, pre_tokenizers.ByteLevel(False, use_regex=False)])
    elif kind == "unparted":  # tokens reach across words
        made.pre_tokenizer = pre_tokenizers.ByteLevel(False, use_regex=False)
    else:
        made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=kind == "prefixed")
    if kind == "lower":
        made.normalizer = normalizers.Lowercase()
    made.decoder = decoders.ByteLevel()
    alphabet = [] if kind == "few" else pre_tokenizers.ByteLevel.alphabet()
    trainer: Any = trainers.BpeTrainer(
        vocab_size=vocab,
        special_tokens=list(special),
        initial_alphabet=sorted(set(alphabet) - {chr(256 + byte) for byte in lacking}),
        show_progress=False,
    )
    made.train_from_iterator(TEXT.splitlines(keepends=True) if kind == "unparted" else [TEXT], trainer)
    if begins and special:
        made.post_processor = processors.TemplateProcessing(
            single=f"{special[0]} $A", special_tokens=[(special[0], made.token_to_id(special[0]))]
        )
    if kind == "runs":
        made.add_tokens([AddedToken(" " * size, normalized=False) for size in (2, 4, 8)])
    roles = dict(zip(("bos_token", "eos_token"), special, strict=False))
    return PreTrainedTokenizerFast(tokenizer_object=made, clean_up_tokenization_spaces=False, **roles)


@cache
def sentence_piece(metaspace: bool = False) -> Any:
    """As Llama 2 has it: characters and their pairs, spaces as letters, and bytes for all that is not there."""
    letters = sorted(set("abcdefghijklmnopqrstuvwxyz(){}[]:=.,'\n") | {"▁"})
    pairs = [("▁", "▁"), ("▁", "t"), ("e", "f"), ("d", "ef"), ("▁t", "e"), ("▁", "def"), ("o", "r"), ("▁▁", "▁▁")]
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *letters]
    tokens += [one + other for one, other in pairs]
    vocab = {token: number for number, token in enumerate(tokens)}
    made: Any = Tokenizer(models.BPE(vocab, pairs, byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    if metaspace:
        made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    else:
        made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    made.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    made.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    made.add_special_tokens(["<unk>", "<s>", "</s>"])
    made.add_tokens([AddedToken("▁▁", normalized=False)])  # as in Gemma's, which writes it for two spaces
    return PreTrainedTokenizerFast(tokenizer_object=made, bos_token="<s>", eos_token="</s>", unk_token="<unk>")


def word_piece() -> Any:
    """A tokenizer that writes in lower case, and loses spaces."""
    made: Any = Tokenizer(models.WordPiece({"[UNK]": 0, "def": 1, "f": 2}, unk_token="[UNK]"))
    made.normalizer = normalizers.Lowercase()
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.decoder = decoders.WordPiece()
    return PreTrainedTokenizerFast(tokenizer_object=made)


KINDS: dict[str, Any] = {
    "gpt2": lambda: byte_level(300),
    "gpt2, more": lambda: byte_level(420),
    "prefixed": lambda: byte_level(380, kind="prefixed"),
    "llama3": lambda: byte_level(400, ("<|s|>", "<|e|>", "<|x|>"), "llama3"),
    "unparted": lambda: byte_level(420, kind="unparted"),
    "runs": lambda: byte_level(360, ("<end>",), "runs", begins=False),
    "sentencepiece": lambda: sentence_piece(),
    "metaspace": lambda: sentence_piece(metaspace=True),
}
"""Tokenizers whose bytes are known."""
