"""EAGLE-style draft models: the same without training, and the law that is verified with it."""

import copy
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from transformers import AutoModelForCausalLM  # noqa: E402

import otspec  # noqa: E402
from otspec.decode.drafters.eagle.model import EagleLlama  # noqa: E402
from otspec.decode.models.passes.fused import LlamaReader  # noqa: E402
from otspec.decode.models.passes.signature import Conditioning  # noqa: E402
from otspec.decode.models.passes.transformers_reader import TransformersReader  # noqa: E402
from tests.contracts.draft_models import LAYERS, WIDTH, all_features, eagle, layer_of  # noqa: E402
from tests.decode.models import pair  # noqa: E402

pytestmark = pytest.mark.usefixtures("no_gradients")

TEXTS = ([3, 1, 4, 1, 5], [2, 7], [6])


def test_without_training_it_is_the_draft_model_to_the_last_bit(tmp_path: Path) -> None:
    target, draft = pair()
    model = EagleLlama.of(draft, LAYERS, WIDTH)
    ids = torch.tensor([TEXTS[0]])
    added = model.conditioning(all_features(target, TEXTS[0])[None])
    assert torch.equal(model(ids, added=added).logits, draft(ids).logits)
    settings: dict[str, Any] = {"paths": 2, "depth": 3, "max_new_tokens": 12, "seed": 5}
    plain, same = (otspec.generate(target, one, ids, **settings) for one in (draft, model))
    assert torch.equal(plain.sequences, same.sequences)
    assert plain.metrics.accepted == same.metrics.accepted
    trained = eagle(draft)
    trained.save_pretrained(tmp_path)
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float64)
    assert type(loaded) is EagleLlama
    again = [otspec.generate(target, one, ids, **settings).metrics.accepted for one in (trained, loaded)]
    assert again[0] == again[1]


def test_a_layer_in_the_targets_place_has_its_embedding_and_head() -> None:
    target = pair()[0]
    model = EagleLlama.of_target(target)
    assert model.config.num_hidden_layers == 1
    assert model.config.features == [2]
    assert torch.equal(model.get_input_embeddings().weight, target.get_input_embeddings().weight)
    assert torch.equal(model.lm_head.weight, target.lm_head.weight)
    still = {name for name, weights in model.named_parameters() if not weights.requires_grad}
    assert still == {"model.embed_tokens.weight", "lm_head.weight"}
    # Its own outputs are fed as the target's hidden states are.
    states = all_features(target, TEXTS[0])[:, 2:]
    assert torch.equal(model.added_of_own(states[:, 0]), model.conditioning(states))


@pytest.mark.parametrize("kind", ["eagle", "drafts features"])
def test_the_lean_reader_gives_the_same_bits(kind: str) -> None:
    target, draft = (copy.deepcopy(one).float() for one in pair(seed=3))
    model = eagle(draft) if kind == "eagle" else layer_of(target)
    assert LlamaReader.takes(model)
    ids, added = torch.tensor([[3, 1, 4], [2, 7, 1]]), torch.randn(2, 3, 16, generator=torch.Generator().manual_seed(0))
    found = []
    for reading in (LlamaReader, TransformersReader):
        reader = reading(model, (model.config.num_hidden_layers,))
        first, then = Conditioning(added=added), Conditioning(added=added[:, :1])
        reader.begin(ids, torch.ones(2, 3, dtype=torch.bool), torch.arange(3).expand(2, -1), conditioning=first)
        found.append(reader.read(ids[:, :1], torch.tensor([[3]]).expand(2, -1), None, 3, 1, then))
    assert all(torch.equal(*both) for both in zip(*found, strict=True))
