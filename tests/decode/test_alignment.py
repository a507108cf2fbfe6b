"""Counts of what the target writes where a foreign draft model writes a token, against a walk through the text."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from otspec.decode.models.tokens.alignment import aligned_counts
from otspec.decode.models.tokens.matching import matching_of
from otspec.vocab import load_affinity
from tests.decode.tokenizers_of import TEXT, byte_level

PLAIN = TEXT.replace("<", "(")  # no special tokens written out, which the tokenizers would read as such
TEXTS = [PLAIN[:3000], "", "é ≠ 中文 def", PLAIN[2000:2500]]


@pytest.mark.parametrize(("vocab", "own"), [(420, 300), (300, 420)])
def test_counts_are_those_of_a_walk_through_the_text(vocab: int, own: int, tmp_path: Path) -> None:
    target, draft = byte_level(vocab), byte_level(own)
    matching = matching_of(target, draft)
    assert matching is not None
    counterpart = dict(zip(matching.own.tolist(), matching.tokens.tolist(), strict=True))
    walked: Counter[tuple[int, int]] = Counter()
    level: Counter[int] = Counter()
    for text in TEXTS:
        begins = []
        for tokenizer in (target, draft):
            found = tokenizer.backend_tokenizer.encode(text, add_special_tokens=False)
            at, places = 0, {}
            for token in found.tokens:  # a letter of a token is a byte
                places[at] = tokenizer.backend_tokenizer.token_to_id(token)
                at += len(token)
            begins.append(places)
        level.update(begins[0].values())
        for at, token in begins[0].items():
            if begins[1].get(at) in counterpart:
                walked[counterpart[begins[1][at]], token] += 1
    estimate = aligned_counts(matching, TEXTS, {"source": "texts"})
    assert estimate.about == {"source": "texts", "seen": sum(level.values()), "aligned": sum(walked.values())}
    assert [level[token] for token in range(vocab)] == estimate.level.tolist()
    assert estimate.tokens.tolist() == matching.tokens.tolist()
    matrix = estimate.matrix.toarray()
    for row, token in enumerate(matching.tokens.tolist()):
        expected = np.array([walked[token, other] for other in range(vocab)])
        if not expected.any():
            expected[token] = 1  # what is never seen keeps its mass
        np.testing.assert_array_equal(matrix[row], expected)
    moved = sum(count for (token, other), count in walked.items() if token != other)
    assert moved > 100 if own < vocab else moved == 0
    estimate.nearest(4).save(tmp_path / "affinity.safetensors")
    assert load_affinity(tmp_path / "affinity.safetensors").rows(0, 3).sum(axis=1) == pytest.approx(np.ones(3))
