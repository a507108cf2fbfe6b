"""EAGLE-style draft models: the same without training, and the law that is verified with it."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from transformers import AutoModelForCausalLM  # noqa: E402

import otspec  # noqa: E402
from otspec.decode.base.draft_laws import draft_law  # noqa: E402
from otspec.decode.base.sampling import Sampling  # noqa: E402
from otspec.decode.drafters.eagle.drafter import EagleDrafter  # noqa: E402
from otspec.decode.drafters.eagle.model import EagleLlama  # noqa: E402
from otspec.decode.models.passes.fused import LlamaReader  # noqa: E402
from otspec.decode.models.passes.transformers_reader import TransformersReader  # noqa: E402
from otspec.errors import ProblemError  # noqa: E402
from otspec.verification.trees.shape import Shape  # noqa: E402
from tests.decode.models import pair  # noqa: E402
from tests.decode.test_steered import LAYERS, TEXTS, WIDTH, all_features, check_law  # noqa: E402


@pytest.fixture(autouse=True)
def _no_gradients() -> Any:
    with torch.no_grad():
        yield


def _eagle(draft: Any, strength: float = 0.4) -> Any:
    """A draft model with maps that were never trained, and do a lot."""
    model = EagleLlama.of(draft, LAYERS, WIDTH)
    generator = torch.Generator().manual_seed(0)
    for weights in (model.seen.weight, model.own.weight):
        weights += strength * torch.randn(weights.shape, generator=generator, dtype=weights.dtype)
    return model


def _drafting_features(target: Any, strength: float = 0.4) -> Any:
    """A layer in the target's place, of random weights."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = EagleLlama.of_target(target)
        for weights in (model.seen.weight, model.token.weight):
            weights += strength * torch.randn_like(weights)
    return model


def _features(model: Any, target: Any, text: list[int]) -> Any:
    """What the model looks at of a target of two layers."""
    return all_features(target, text)[:, model.config.features]


def _read(model: Any, target: Any, text: list[int], drafted: list[int]) -> Any:
    """Logits after a text and what was drafted after it: one token after the other, all of them anew."""
    before = _features(model, target, text[:-1])
    features = torch.cat((before.new_zeros(1, *before.shape[1:]), before))
    added = model.conditioning(features)[None]
    for at in range(len(drafted) + 1):
        found = model(torch.tensor([[*text, *drafted[:at]]]), added=added, output_hidden_states=True)
        added = torch.cat((added, model.added_of_own(found.hidden_states[-1][:, -1:])), dim=1)
    return found.logits[0, -1]


def test_without_training_it_is_the_draft_model_to_the_last_bit(tmp_path: Path) -> None:
    target, draft = pair()
    model = EagleLlama.of(draft, LAYERS, WIDTH)
    ids = torch.tensor([TEXTS[0]])
    added = model.conditioning(all_features(target, TEXTS[0])[None])
    assert torch.equal(model(ids, added=added).logits, draft(ids).logits)
    settings: dict[str, Any] = {"paths": 2, "depth": 3, "max_new_tokens": 12, "seed": 5}
    plain, eagle = (otspec.generate(target, one, ids, **settings) for one in (draft, model))
    assert torch.equal(plain.sequences, eagle.sequences)
    assert plain.metrics.accepted == eagle.metrics.accepted
    trained = _eagle(draft)
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
    model = _eagle(draft) if kind == "eagle" else _drafting_features(target)
    assert LlamaReader.takes(model)
    ids, added = torch.tensor([[3, 1, 4], [2, 7, 1]]), torch.randn(2, 3, 16, generator=torch.Generator().manual_seed(0))
    found = []
    for reading in (LlamaReader, TransformersReader):
        reader = reading(model, (model.config.num_hidden_layers,))
        reader.added = added
        reader.begin(ids, torch.ones(2, 3, dtype=torch.bool), torch.arange(3).expand(2, -1))
        reader.added = added[:, :1]
        found.append((reader.read(ids[:, :1], torch.tensor([[3]]).expand(2, -1), None, 3, 1), reader.features))
    assert all(torch.equal(*both) for both in zip(*found, strict=True))


@pytest.mark.parametrize("lengths", [(0, 0, 0), (2, 1, 0), (1, 3, 2)])
@pytest.mark.parametrize("drafted", [True, False])
@pytest.mark.parametrize("kind", ["eagle", "drafts features"])
def test_laws_are_those_of_a_text_that_is_read_anew(kind: str, lengths: tuple[int, ...], drafted: bool) -> None:
    """After a prompt, and after a step that accepted some drafts and added a token; or after one without drafts."""
    target, draft = pair()
    model, shape = _eagle(draft) if kind == "eagle" else _drafting_features(target), Shape((2, 1, 1))
    sampling = Sampling(target._get_logits_processor(target.generation_config, device="cpu", model_kwargs={}), True)
    drafter = EagleDrafter(model, shape, draft_law("iid"), sampling, 8, torch.Generator().manual_seed(1))
    texts = [list(text) for text in TEXTS]
    drafter.observe([_features(model, target, text[:-1]) for text in texts])
    drafter.start(texts)

    def check() -> Any:
        drafts, row = drafter.draft(texts, 3), 0
        for text, tree in zip(texts, drafts.trees, strict=True):
            for node in range(tree.inner):
                logits = _read(model, target, text, tree.token[tree.line(node)].tolist())
                torch.testing.assert_close(drafts.laws[row], logits.softmax(-1), rtol=1e-9, atol=1e-12)
                row += 1
        assert row == len(drafts.laws)
        return drafts

    slots: list[list[int]] = [[], [], []]
    if drafted:
        drafts = check()
        slots = [
            tree.slot[tree.node[0, 1 : 1 + length]].tolist() for tree, length in zip(drafts.trees, lengths, strict=True)
        ]
    seen = []
    for number, (text, accepted) in enumerate(zip(texts, slots, strict=True)):
        read = list(text)
        if drafted:
            tree = drafts.trees[number]
            read += tree.token[tree.node[0, 1 : 1 + len(accepted)]].tolist()
        seen.append(_features(model, target, read)[len(text) - 1 :])
        texts[number] = [*read, 3]
    rows = [0, 2]
    drafter.commit(slots, rows)
    drafter.observe([seen[row] for row in rows])
    texts = [texts[row] for row in rows]
    check()


@pytest.mark.parametrize("settings", [{}, {"temperature": 0.6, "top_k": 3}])
@pytest.mark.parametrize("rule", ["nested", "block", "interval"])
def test_texts_have_the_targets_law(rule: str, settings: dict[str, Any]) -> None:
    target, draft = pair(4, seed=1)
    check_law(target, _eagle(draft), rule, settings)


def test_a_model_of_another_target_is_refused() -> None:
    target, draft = pair()
    with pytest.raises(ProblemError, match="width 16, and the draft model was trained with 8"):
        otspec.generate(target, EagleLlama.of(draft, LAYERS, 8), torch.tensor([TEXTS[0]]), max_new_tokens=4)
