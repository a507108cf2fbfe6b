"""A target's own generation configuration: it acts as in transformers, it is told, and it can be left out."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from transformers import GenerationConfig

import otspec
from otspec.decode import run
from otspec.decode.methods import Vanilla
from otspec.decode.methods.assisted import plain
from otspec.decode.models.own_config import ALWAYS, SAMPLED, drop_own_config, own_config
from tests.decode.models import greedy_text, pair
from tests.saved_pair import VOCAB, tokenizer

PROMPTS = torch.tensor([[1, 2, 3]])
GREEDY = greedy_text(pair(40)[0], [1, 2, 3], 12)[3:]
EOS = next(token for token in range(40) if token not in GREEDY)
OWN: dict[str, Any] = {
    "repetition_penalty": 1.8,
    "no_repeat_ngram_size": 1,
    "bad_words_ids": [[GREEDY[1]], GREEDY[:2]],
    "min_new_tokens": 9,
    "suppress_tokens": [GREEDY[2]],
    "begin_suppress_tokens": [GREEDY[0]],
    "forced_eos_token_id": EOS,
    "sequence_bias": [[[8], 30.0]],
    "min_p": 0.2,
    "typical_p": 0.6,
    "epsilon_cutoff": 0.04,
    "eta_cutoff": 0.04,
    "top_h": 0.5,
}


def with_own(eos: int = EOS, **settings: Any) -> tuple[Any, Any]:
    target, draft = pair(40)
    target = copy.copy(target)  # `tiny` keeps one for all tests
    target.generation_config = GenerationConfig(eos_token_id=eos, pad_token_id=0, **settings)
    return target, draft


def test_every_field_is_one_of_transformers() -> None:
    known = GenerationConfig().to_dict()
    assert {*ALWAYS, *SAMPLED} <= known.keys()
    assert own_config(with_own()[0]) == {}
    assert own_config(with_own(repetition_penalty=1.0, typical_p=1.0, min_length=0, suppress_tokens=[])[0]) == {}
    assert own_config(with_own(temperature=0.3, top_k=2, top_p=0.1)[0]) == {}


@pytest.mark.parametrize("name", OWN)
def test_each_setting_acts_as_in_transformers_is_told_and_can_be_left_out(name: str) -> None:
    eos = GREEDY[4] if name == "min_new_tokens" else EOS
    target, draft = with_own(eos, **{name: OWN[name]})
    assert own_config(target) == {name: OWN[name]}
    assert own_config(target, greedy=True) == ({} if name in SAMPLED else {name: OWN[name]})
    settings: dict[str, Any] = {"max_new_tokens": 12, "seed": 1}
    if name in SAMPLED:
        settings["logprobs"] = 0
        acting, without = (
            otspec.generate(target, draft, PROMPTS, paths=2, depth=3, own_config=own, **settings)
            for own in (True, False)
        )
        off = [torch.tensor(one.logprobs[0]) - torch.tensor(one.raw_logprobs[0]) for one in (acting, without)]
        assert off[0].abs().max() > 0.01  # the law is truncated
        assert off[1].abs().max() < 1e-6
        return
    greedy = {"max_new_tokens": 12, "do_sample": False}
    theirs = target.generate(PROMPTS, **greedy).tolist()
    law = with_own(eos)[0].generate(PROMPTS, **greedy).tolist()
    assert theirs != law
    decodes: tuple[Callable[..., Any], ...] = (
        lambda **more: otspec.generate(target, draft, PROMPTS, paths=2, depth=3, temperature=0, **settings, **more),
        lambda **more: run(target, Vanilla(), PROMPTS, temperature=0, **settings, **more),
        lambda **more: plain(target, PROMPTS, temperature=0, **settings, **more),
    )
    for decode in decodes:
        assert decode().sequences.tolist() == theirs
        assert decode(own_config=False).sequences.tolist() == law
    drop_own_config(target)
    assert own_config(target) == {}
    assert target.generation_config.eos_token_id == eos
    assert target.generate(PROMPTS, **greedy).tolist() == law


def test_what_a_call_says_itself_stays() -> None:
    target, draft = with_own(repetition_penalty=1.8)
    settings: dict[str, Any] = {"max_new_tokens": 12, "do_sample": False}
    wanted = target.generate(PROMPTS, repetition_penalty=0.5, **settings).tolist()
    assert wanted != target.generate(PROMPTS, **settings).tolist()
    by_call = otspec.generate(target, draft, PROMPTS, repetition_penalty=0.5, own_config=False, **settings)
    config = GenerationConfig(repetition_penalty=0.5, **settings)
    by_config = otspec.generate(target, draft, PROMPTS, generation_config=config, own_config=False)
    assert by_call.sequences.tolist() == by_config.sequences.tolist() == wanted


def test_stop_strings_of_a_configuration_end_texts_or_are_left_out() -> None:
    """Of the target's own, and of one that is passed."""
    words = tokenizer()
    target, draft = pair(VOCAB)
    stopping = copy.copy(target)
    settings: dict[str, Any] = {"tokenizer": words, "max_new_tokens": 20, "temperature": 0, "solver": "block"}
    whole = otspec.generate(target, draft, PROMPTS, **settings).new_tokens[0]
    stopping.generation_config = GenerationConfig(stop_strings=[words.decode(whole[3])])
    ended = otspec.generate(stopping, draft, PROMPTS, **settings).new_tokens[0]
    assert ended == whole[: len(ended)]
    assert len(ended) <= 4
    assert otspec.generate(stopping, draft, PROMPTS, own_config=False, **settings).new_tokens[0] == whole
    passed = GenerationConfig(**stopping.generation_config.to_dict())
    assert otspec.generate(target, draft, PROMPTS, generation_config=passed, **settings).new_tokens[0] == ended
