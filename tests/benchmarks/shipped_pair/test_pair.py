"""The pair that comes with the package is what its recipe makes and its record says."""

import json
from dataclasses import asdict

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from benchmarks.shipped_pair.corpus import read_corpus  # noqa: E402
from benchmarks.shipped_pair.recipe import DRAFT, TARGET, measure, tokens_of  # noqa: E402
from otspec.decode.shipped import FOLDER, HELD_OUT_ROWS, TRAINING, Pair, load  # noqa: E402

RECORD = json.loads((FOLDER / TRAINING).read_text())


@pytest.fixture(scope="module")
def pair() -> Pair:
    return load()


def test_both_are_llamas_of_the_recorded_shape_and_one_vocabulary(pair: Pair) -> None:
    for name, model, shape in (("target", pair.target, TARGET), ("draft", pair.draft, DRAFT)):
        config = model.config
        assert type(model).__name__ == "LlamaForCausalLM"
        assert not model.training
        assert model.dtype == torch.float32
        assert (config.hidden_size, config.num_hidden_layers) == (shape.width, shape.layers)
        assert config.vocab_size == len(pair.tokenizer) == RECORD["vocab"]
        assert model.get_input_embeddings().weight is model.get_output_embeddings().weight
        assert sum(value.numel() for value in model.parameters()) == RECORD[name]["parameters"]
        assert {key: RECORD[name][key] for key in asdict(shape)} == asdict(shape)
    assert load(torch.float16).draft.dtype == torch.float16


def test_tokens_give_back_the_sources_of_the_running_python(pair: Pair) -> None:
    for source in read_corpus()[::50]:
        tokens = tokens_of(pair.tokenizer, source.text)
        assert tokens.pop() == pair.tokenizer.eos_token_id
        assert pair.tokenizer.decode(tokens) == source.text


def test_losses_and_acceptance_on_the_recorded_sample_are_as_recorded(pair: Pair) -> None:
    rows = torch.from_numpy(np.load(FOLDER / HELD_OUT_ROWS)["rows"].astype(np.int64))
    measured = measure(pair.target, pair.draft, rows)
    assert measured == pytest.approx(RECORD["sample"], abs=1e-4)
    assert measured["target_loss"] < measured["draft_loss"]
    assert 0.6 < measured["acceptance"] < 0.85
