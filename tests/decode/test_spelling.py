"""Tokens as bytes and texts in the tokens of another tokenizer, against the tokenizers themselves."""

import itertools
import re
from typing import Any

import numpy as np
import pytest

from otspec import ProblemError
from otspec.decode.drafters.cross_tokenizer.retokenised import Retokenised
from otspec.decode.models.tokens.matching import Matching, matching_of
from otspec.decode.models.tokens.spelling import Spelling
from tests.decode.tokenizers_of import KINDS, TEXT, byte_level, sentence_piece, word_piece

PARTS = ["def f", "(x):", "\n", "\r\n\r\n", "  ", "    ", " ", "\t", "x", "'s", "1234", " 5", "é", "中文", " ≠", "🜚"]
PARTS += ["\u3000", "e\u0301", "\u00a0", "▁", ".", "):\n        return", " tokenizer", "<|x|>", "<end>", "a" * 70]


def _text(rng: Any, most: int = 12) -> str:
    return "".join(rng.choice(PARTS, size=rng.integers(1, most)))


def _matchings() -> dict[str, tuple[Any, Any]]:
    chain = ("gpt2", "gpt2, more", "prefixed", "llama3", "unparted", "runs", "sentencepiece", "gpt2")
    pairs = [*itertools.pairwise(chain), ("gpt2, more", "gpt2"), ("metaspace", "llama3"), ("llama3", "metaspace")]
    return {f"{one} to {other}": (KINDS[one], KINDS[other]) for one, other in pairs}


def _matching(name: str) -> Matching:
    found = matching_of(*(make() for make in _matchings()[name]))
    assert found is not None
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_texts_have_the_tokens_that_the_tokenizer_gives_them(kind: str) -> None:
    tokenizer, rng = KINDS[kind](), np.random.default_rng(1)
    spelling = Spelling(tokenizer, "tokenizer")
    names = [re.escape(name) for name in spelling.special.values()]
    lossy = "▁" if not spelling.cuts_words or "piece" in kind or "meta" in kind else "\0"
    compared = 0
    for text in [TEXT, *(_text(rng) for _ in range(80))]:
        if re.search("|".join(names), text) or lossy in text or (spelling.prepends and text.startswith(" ")):
            continue
        before = b" " if spelling.prepends else b""
        own = tokenizer.backend_tokenizer.encode(text, add_special_tokens=False).ids
        assert spelling.encode(before + text.encode()) == own
        assert spelling.begin == tokenizer(text).input_ids[: len(spelling.begin)]
        compared += 1
    assert compared > 25
    assert all(spelling.ids[spelling.bytes_of[number]] == number for number in spelling._whole.values())


def test_special_tokens_written_out_are_text() -> None:
    spelling = Spelling(byte_level(300), "tokenizer")
    assert not set(spelling.encode(b"a<end>b")) & set(spelling.special)


def test_bytes_of_letters_that_no_token_has() -> None:
    spelling = Spelling(sentence_piece(), "tokenizer")
    tokens = spelling.encode("é ▁".encode())
    assert [spelling.bytes_of[token] for token in tokens] == [b"\xc3", b"\xa9", b" ", b"\xe2", b"\x96", b"\x81"]


@pytest.mark.parametrize("name", _matchings())
def test_a_text_that_grows_has_the_tokens_of_the_whole(name: str) -> None:
    """Of any of the target's tokens, special ones and parts of characters among them."""
    matching, rng = _matching(name), np.random.default_rng(2)
    target, draft = matching.target, matching.draft
    usual = np.array(sorted(target.bytes_of))
    for trial in range(12):
        text = list(target.begin) if trial % 3 else []
        growing = Retokenised(matching)
        while len(text) < 60:
            if rng.random() < 0.5:
                text += target.encode(_text(rng, 4).encode())[: rng.integers(1, 6)]
            else:
                text += rng.choice(usual, size=rng.integers(1, 4)).tolist()
            if rng.random() < 0.15:
                text.append(int(rng.choice(list(target.special))))
            found = growing.extend(text)
            assert found == Retokenised(matching).extend(text)
            assert found[: len(growing.final)] == growing.final
        # And the same bytes between the same special tokens.
        shown = [
            target.bytes_of.get(token, matching.special.get(token))
            for token in text[len(target.begin) * bool(trial % 3) :]
        ]
        mine = [draft.bytes_of.get(token, token) for token in found[len(draft.begin) :]]
        assert _joined(mine, False, False) == _joined(shown, target.prepends, draft.prepends)


def _joined(shown: Any, prepended: bool, prepends: bool) -> list[Any]:
    """Runs of bytes as one, with another space before the first; what was dropped parts none."""
    runs: list[Any] = []
    for one in shown:
        if isinstance(one, bytes) and runs and isinstance(runs[-1], bytes):
            runs[-1] += one
        elif one is not None:
            runs.append(one)
    at = next((at for at, run in enumerate(runs) if isinstance(run, bytes)), None)
    if at is not None and prepended:
        runs[at] = runs[at].removeprefix(b" ")
    if at is not None and prepends and runs[at][:1] != b" ":
        runs[at] = b" " + runs[at]
    return [run for run in runs if run != b""]


@pytest.mark.parametrize("name", _matchings())
def test_prompts_are_what_the_draft_models_tokenizer_makes_of_their_text(name: str) -> None:
    matching, rng = _matching(name), np.random.default_rng(3)
    target, draft = (make() for make in _matchings()[name])
    special = [*matching.target.special.values(), *matching.draft.special.values(), "▁"]
    for _ in range(30):
        text = _text(rng)
        if text.startswith(" ") or any(one in text for one in special):
            continue
        assert Retokenised(matching).extend(target(text).input_ids) == draft(text).input_ids


def test_a_text_without_tokens_has_one_all_the_same() -> None:
    matching = _matching("llama3 to unparted")
    assert Retokenised(matching).extend([]) == matching.draft.begin
    matching = _matching("unparted to runs")
    growing = Retokenised(matching)
    assert matching.draft.begin == []
    assert growing.extend([0]) == [matching.draft.blank]  # the token that begins a text, for which there is none
    assert growing.extend([0, *matching.target.encode(b"def")]) == matching.draft.encode(b"def")


@pytest.mark.parametrize("name", _matchings())
def test_tokens_match_that_spell_the_same(name: str) -> None:
    matching = _matching(name)
    target, draft = matching.target, matching.draft
    pairs = dict(zip(matching.tokens.tolist(), matching.own.tolist(), strict=True))
    assert sorted(pairs) == matching.tokens.tolist()
    assert len(set(pairs.values())) == len(pairs)
    for token, own in pairs.items():
        if token in target.special:
            assert matching.special[token] == own
        else:
            assert target.bytes_of[token] == draft.bytes_of[own]
    common = set(target.bytes_of.values()) & set(draft.bytes_of.values())
    assert {target.bytes_of[token] for token in pairs if token not in target.special} == common
    assert len(common) >= 256
    assert matching.share == len(pairs) / matching.vocab
    read = matching.reading(all_tokens=True)
    for token, spelt in target.bytes_of.items():
        assert spelt.endswith(draft.bytes_of[int(read[token])])
    assert (read[matching.tokens] == matching.own).all()
    assert (matching.reading(all_tokens=False)[matching.tokens] == matching.own).all()


def test_special_tokens_match_by_what_they_are_for_and_else_by_name() -> None:
    one, other = byte_level(300, ("<s>", "</s>", "<tool>")), byte_level(310, ("<a>", "<b>", "<pad>", "<tool>"))
    matching = matching_of(one, other)
    assert matching is not None
    assert matching.special == {0: 0, 1: 1, 2: 3}
    assert not {"<pad>"} & set(matching.target.special.values())


def test_models_that_have_fewer_tokens_than_their_tokenizers() -> None:
    matching = _matching("gpt2, more to gpt2")
    fewer = matching.within(280, 290)
    assert (fewer.tokens.max(), fewer.own.max(), fewer.vocab) <= (279, 289, 280)
    assert len(fewer.reading(all_tokens=True)) == 280
    with pytest.raises(ProblemError, match="2 of the target's 90000 tokens are tokens of the draft model"):
        matching.within(90_000, 2)


def test_one_tokenizer_twice() -> None:
    assert matching_of(byte_level(300), byte_level(300)) is None
    assert matching_of(None, byte_level(300)) is None


def test_tokenizers_whose_bytes_cannot_be_told() -> None:
    for target, draft, message in (
        (byte_level(300), word_piece(), r"the draft_tokenizer, .* neither works on bytes nor falls back on them"),
        (word_piece(), byte_level(300), r"the tokenizer, .* neither works on bytes"),
        (byte_level(300), byte_level(310, kind="lower"), "does not give a text back byte by byte"),
        (byte_level(300), byte_level(40, kind="few"), "has no token for the byte 0x"),
    ):
        with pytest.raises(ProblemError, match=message):
            matching_of(target, draft)


def test_a_target_may_lack_bytes_that_no_text_of_it_has() -> None:
    lacking, whole = byte_level(300, lacking=b"\x04"), byte_level(310)
    matching = matching_of(lacking, whole)
    assert matching is not None
    assert b"\x04" not in matching.target.ids
    assert matching.target.encode(b"a b") == lacking("a b", add_special_tokens=False).input_ids
    with pytest.raises(ProblemError, match=r"the tokenizer, .* has no token for the byte 0x04; a drafter needs one"):
        matching.target.encode(b"a\x04b")
    with pytest.raises(ProblemError, match=r"the draft_tokenizer, .* has no token for the byte 0x04"):
        matching_of(whole, lacking)
