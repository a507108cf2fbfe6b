"""Heads on the target's last hidden state: what they compute."""

import copy
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

import otspec
from otspec.decode.drafters.heads.model import MedusaHeads
from tests.contracts.draft_models import HEADS, all_features, heads, logits_of_heads
from tests.decode.models import tiny

pytestmark = pytest.mark.usefixtures("no_gradients")

MADE = (*HEADS, "eagle1")
TEXTS = ([3, 1, 4, 1, 5], [2, 7], [6])
PROMPT = [1, 2, 0]


@pytest.mark.parametrize("name", HEADS)
def test_heads_compute_what_the_papers_say(name: str) -> None:
    target = tiny()
    model = heads(name, target)
    text = [3, 1, 4, 1, 5]
    states = all_features(target, text, (2,))[:, 0]
    tokens, features = torch.tensor([text[1:]]), states[None, :-1]
    along = model.along(tokens, features)
    assert [logits.shape for logits in along] == [(1, 4 - number, 8) for number in range(3)]
    for number, logits in enumerate(along):
        for column in range(4 - number):
            read = text[1 + column : 2 + column + number]
            np.testing.assert_allclose(logits[0, column], logits_of_heads(model, states[column], read), atol=1e-9)
    assert torch.equal(model(tokens, features).logits, along[0])
    assert len(model.along(tokens[:, :1], features[:, :1])) == 1


def test_medusa_begins_as_the_head_of_its_target() -> None:
    target = copy.deepcopy(tiny()).float()
    model = MedusaHeads.of(target, 2)
    text = torch.tensor([TEXTS[0]])
    said = target(text, output_hidden_states=True)
    for logits in model.along(text, said.hidden_states[-1]):
        assert torch.equal(logits, said.logits[:, : logits.shape[1]])


def test_a_head_with_bias_and_soft_cap_is_taken_over() -> None:
    from transformers import Gemma2Config, Gemma2ForCausalLM

    config = Gemma2Config(
        vocab_size=8,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=8,
        final_logit_softcapping=2.0,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        target = Gemma2ForCausalLM(config).double().eval()
    target.lm_head.bias = torch.nn.Parameter(torch.linspace(-3, 3, 8, dtype=torch.float64))
    text = torch.tensor([TEXTS[0]])
    said = target(text, output_hidden_states=True)
    assert 1.5 < said.logits.abs().max() < 2.0
    model = MedusaHeads.of(target, 1)
    torch.testing.assert_close(model.along(text, said.hidden_states[-1])[0], said.logits, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", MADE)
def test_it_is_saved_and_loaded_by_transformers(name: str, tmp_path: Path) -> None:
    target = tiny()
    model = heads(name, target)
    model.save_pretrained(tmp_path)
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float64)
    assert type(loaded) is type(model)
    before, after = model.state_dict(), loaded.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[key], after[key]) for key in before)
    ids = torch.tensor([TEXTS[0]])
    found = [
        otspec.generate(target, one, ids, paths=2, depth=3, max_new_tokens=12, seed=1).sequences
        for one in (model, loaded)
    ]
    assert torch.equal(*found)


def test_a_text_goes_no_deeper_than_there_are_heads() -> None:
    target = tiny()
    found = otspec.generate(
        target, MedusaHeads.of(target, 2), torch.tensor([PROMPT]), paths=1, depth=6, max_new_tokens=9, seed=0
    )
    assert len(found.metrics.accepted) == 2
