"""The draft model with another tokenizer that comes with the package."""

import json

import numpy as np

from otspec.decode.models.tokens.matching import matching_of
from otspec.decode.shipped import AFFINITY, FOLDER, FOREIGN, TRAINING, foreign, load

PLACE = FOLDER / FOREIGN


def test_it_is_small_and_what_its_record_says() -> None:
    draft, tokenizer, affinity = foreign()
    record = json.loads((PLACE / TRAINING).read_text())
    assert sum(file.stat().st_size for file in PLACE.iterdir()) <= 2e6
    assert (PLACE / AFFINITY).stat().st_size <= 300_000
    assert (PLACE / "model.safetensors").stat().st_size == record["model"]["bytes"]
    assert sum(value.numel() for value in draft.parameters()) == record["model"]["parameters"]
    assert record["vocab"] == len(tokenizer) == draft.config.vocab_size == 1024
    assert record["recipe"]["context"] == draft.config.max_position_embeddings == tokenizer.model_max_length
    trained = json.loads((FOLDER / TRAINING).read_text())
    assert record["corpus"]["sha256"] == trained["corpus"]["sha256"]
    assert affinity.vocab == trained["vocab"]


def test_its_tokens_are_tokens_of_the_target_and_their_mass_goes_to_what_begins_with_them() -> None:
    _, tokenizer, affinity = foreign()
    matching = matching_of(load().tokenizer, tokenizer)
    assert matching is not None
    assert sorted(matching.own.tolist()) == list(range(1024))
    np.testing.assert_array_equal(np.sort(affinity.tokens), matching.tokens)
    spelt, moved = matching.target.bytes_of, 0.0
    rows = affinity.rows(0, affinity.tokens.size)
    for token, row in zip(affinity.tokens.tolist(), rows, strict=True):
        for other in np.flatnonzero(row).tolist():
            assert other == token or spelt[other].startswith(spelt[token])
        moved += 1 - row[token]
    assert moved > 100
