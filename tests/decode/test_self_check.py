"""Models whose pass over a tree is not their reading are refused before anything is decoded; and laws after a text."""

import copy
from typing import Any

import numpy as np
import pytest
import torch

import otspec
from otspec import ProblemError
from otspec.decode import model_after
from otspec.decode.models.self_check import check_reading
from otspec.verification import Nested, accepted_length
from tests.decode.families import made
from tests.decode.models import law_after, pair, tiny
from tests.each import each

PROMPT = torch.tensor([[5, 6, 7]])
DTYPES = (torch.float64, torch.bfloat16, torch.float16)
READ = ("llama", "gpt2", "gpt_neox", "opt", "bert")
FROM_PADDING = ("roberta", "data2vec-text")
"""Whose positions count from the padding index."""


def _of(architecture: str) -> Any:
    return made(architecture, 50, is_decoder=True, pad_token_id=1).float()


@each(architecture=[*READ, *FROM_PADDING])
def test_who_reads_trees(architecture: str) -> None:
    model = _of(architecture)
    for dtype in DTYPES:
        if architecture in READ:
            check_reading(model.to(dtype), "target")
        else:
            with pytest.raises(ProblemError, match=f"the target, {type(model).__name__}, gives other logits for a tre"):
                check_reading(model.to(dtype), "target")


def test_decoding_asks_target_and_draft_model() -> None:
    roberta, llama = _of("roberta"), _of("llama")
    for models, name in (((roberta, llama), "target"), ((llama, roberta), "draft model")):
        with pytest.raises(ProblemError, match=f"the {name}, RobertaForCausalLM, gives other logits"):
            otspec.generate(*models, PROMPT, max_new_tokens=3)
    assert otspec.generate(llama, llama, PROMPT, max_new_tokens=3).metrics.tokens == 3


@pytest.mark.parametrize("architecture", ["llama", "roberta"])
def test_what_16_bits_round_away_is_asked_again_in_float32(architecture: str) -> None:
    model = _of(architecture).bfloat16()
    model.lm_head.register_forward_hook(lambda module, inputs, logits: logits + torch.randn_like(logits))
    if architecture == "llama":
        check_reading(model, "target")
    else:
        with pytest.raises(ProblemError, match="gives other logits for a tree"):
            check_reading(model, "target")


def test_next_to_no_tokens_and_positions_and_training_mode() -> None:
    for vocab in (1, 2, 3):
        check_reading(tiny(vocab=vocab, positions=4), "target")
    with pytest.raises(ProblemError, match=r"It is in training mode.*call \.eval\(\) first"):
        check_reading(_of("gpt2").train(), "target")


def overflowing(after: float) -> Any:
    """A model whose logits are no numbers where a hidden state is above that."""
    model = copy.deepcopy(tiny(50))
    model.model.norm.register_forward_hook(
        lambda module, inputs, states: states.masked_fill(states.sum(dim=-1, keepdim=True) > after, torch.nan)
    )
    return model


def test_logits_that_are_no_numbers_are_not_blamed_on_the_tree() -> None:
    with pytest.warns(UserWarning, match="some logits of the draft model, LlamaForCausalLM, are nan or infinite"):
        check_reading(overflowing(0.0), "draft model")
    with pytest.raises(ProblemError, match=r"are nan or infinite after all of 12 short texts; torch.float64"):
        check_reading(overflowing(-1e9), "draft model")


def test_laws_after_a_text_are_those_of_the_models_own_passes() -> None:
    """Of a pair, by which rules are measured."""
    target, draft = pair(40, noise=0.1)
    text = [1, 2, 3, 4, 9]
    after = model_after(target, draft, text, temperature=0.7, top_k=9)
    for prefix in ((), (5,), (5, 6, 1), (7,), (5, 6)):
        for law, model in ((after.target, target), (after.draft, draft)):
            own = law_after(model, [*text, *prefix], temperature=0.7, top_k=9)
            np.testing.assert_allclose(law(prefix), own, atol=1e-6)
    same, near = (
        accepted_length(Nested(), model_after(target, other, text), (1, 2, 1), samples=3) for other in (target, draft)
    )
    assert same.value == pytest.approx(3.0)
    assert 0 < near.value < 3
