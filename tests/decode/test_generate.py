"""Decoding from the outside: settings, models, prompts, where texts end, and transformers' own `generate`.

What no setting may change, the law and the greedy text, is in tests/contracts; what is refused, in test_refusals.py.
"""

import pickle
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from transformers import GenerationConfig

import otspec
from otspec import ProblemError
from otspec.decode import multi_draft, run
from otspec.decode.methods import block, speculative, typical
from otspec.decode.methods.catalogue import warm_up
from tests.decode.families import family
from tests.decode.models import Words, greedy_text, pair, tiny

PROMPTS = torch.tensor([[1, 2, 3], [4, 5, 6]])
TARGET, DRAFT = pair(40)


def decoded(prompts: Any = PROMPTS, **settings: Any) -> otspec.decode.Generation:
    """By the pair, twelve tokens unless other models and numbers are said."""
    target, draft = settings.pop("models", (TARGET, DRAFT))
    return otspec.generate(target, draft, prompts, **{"max_new_tokens": 12, **settings})


def theirs(method: Any, prompts: Any = PROMPTS, **settings: Any) -> Any:
    """What transformers samples by a decoding method."""
    inputs = {"do_sample": True, "top_k": 0, "max_new_tokens": 12, **settings}
    return TARGET.generate(prompts, custom_generate=method, **inputs)


def greedily(prompts: Any, new: int, target: Any = TARGET) -> list[list[int]]:
    """The target's own text, token by token."""
    return [greedy_text(target, prompt, new)[len(prompt) :] for prompt in prompts]


# --- settings


def test_a_seed_makes_a_run_repeatable() -> None:
    """And without one the global state of torch does; tests/contracts has seeds of every method."""
    torch.manual_seed(5)
    first = decoded().new_tokens
    assert decoded().new_tokens != first
    torch.manual_seed(5)
    assert decoded().new_tokens == first


def test_what_is_drawn_without_drafts_is_warmed_up_too() -> None:
    warm_up(decode := Mock(), {}, {}, 6)
    assert [call.kwargs["max_new_tokens"] for call in decode.call_args_list] == [1, 6]


def test_a_generation_configuration_speaks_for_what_is_not_given() -> None:
    config = GenerationConfig(do_sample=True, top_k=1, max_new_tokens=6)
    found = otspec.generate(TARGET, DRAFT, PROMPTS, generation_config=config)
    assert found.new_tokens == greedily(PROMPTS.tolist(), 6)
    plain = decoded(temperature=2, seed=1).new_tokens
    more: dict[str, Any] = {"temperature": 2.0, "top_k": 0, "seed": 1}
    assert decoded(**more, generation_config=GenerationConfig()).new_tokens == plain
    assert decoded(**more, generation_config=GenerationConfig(do_sample=False), do_sample=True).new_tokens == plain
    assert decoded(do_sample=True, seed=1).new_tokens == decoded(seed=1).new_tokens
    assert decoded(do_sample=False, temperature=0).new_tokens == greedily(PROMPTS.tolist(), 12)


# --- models


def test_several_draft_models() -> None:
    (target, good), poor = pair(40, noise=0.05), pair(40, noise=1.0)[1]
    sampled: dict[str, Any] = {"paths": 2, "seed": 1}
    ours = decoded(models=(target, [poor, good]), law="independent", **sampled)
    assert theirs(multi_draft([poor, good], law="independent", **sampled)).tolist() == ours.sequences.tolist()


def test_vocabularies_of_different_size() -> None:
    words = Words()
    for vocab in (37, 44):
        found = decoded(models=(TARGET, tiny(vocab, 2)), seed=1, tokenizer=words, draft_tokenizer=words)
        assert found.metrics.tokens == 24


def test_positions_and_windows_are_never_exceeded() -> None:
    """Learned positions, the last one, and layers that attend to a window only."""
    target, draft = (family("gpt2", 40, max_position_embeddings=positions) for positions in (24, 15))
    found = decoded(models=(target, draft), max_new_tokens=21, temperature=0, depth=6)
    assert found.new_tokens == greedily(PROMPTS.tolist(), 21, target)
    mask = torch.tensor([[0, 1, 1]])
    assert len(decoded(PROMPTS[:1], attention_mask=mask, max_new_tokens=62, seed=1).new_tokens[0]) == 62
    with pytest.raises(ProblemError, match=r"get 65 tokens long, .* request at most 62 new tokens"):
        decoded(PROMPTS[:1], attention_mask=mask, max_new_tokens=63)
    sliding = family("mistral", 40, sliding_window=12)
    found = decoded(models=(sliding, DRAFT), max_new_tokens=9, temperature=0, depth=3)
    assert found.new_tokens == greedily(PROMPTS.tolist(), 9, sliding)
    with pytest.raises(ProblemError, match="texts may get 13 tokens long, and some layers of the target attend to 12"):
        decoded(models=(sliding, DRAFT), max_new_tokens=10)


# --- prompts, and where texts end


def test_padding_may_stand_anywhere_and_be_any_number() -> None:
    right = torch.tensor([[7, 1, 0, 99], [3, 3, 2, 5], [4, 4, 4, -1]])
    mask, given = (
        torch.tensor([[1, 1, 0, 0], [1, 1, 1, 1], [1, 1, 1, 0]]),
        dict[str, Any](max_new_tokens=6, pad_token_id=0),
    )
    found = decoded(right, attention_mask=mask, temperature=0, **given)
    assert found.new_tokens == greedily(([7, 1], [3, 3, 2, 5], [4, 4, 4]), 6)
    given |= {"attention_mask": mask[2:].flip(1), "no_repeat_ngram_size": 1}
    left = torch.tensor([[34, 3, 7, 1]])  # to processors padding is text, as transformers has it
    assert torch.equal(decoded(left, temperature=0, **given).sequences, TARGET.generate(left, do_sample=False, **given))


def test_max_length_is_met_exactly() -> None:
    for new in (1, 2, 3, 9):
        found = otspec.generate(*pair(40, noise=0.0), PROMPTS, max_length=3 + new, seed=1, paths=2, depth=4)
        assert found.sequences.shape == (2, 3 + new), new
        assert len(found.metrics.offered) == min(4, new - 1), new


def test_criteria_are_asked_after_every_token_and_stop_strings_looked_for() -> None:
    (text,) = greedily([[1, 2, 3]], 17)
    settings: dict[str, Any] = {"max_new_tokens": 17, "temperature": 0}
    stopped = decoded(PROMPTS[:1], **settings, stopping_criteria=[lambda ids, scores, **_: ids[:, -1] == text[9]])
    assert stopped.new_tokens[0] == text[: text.index(text[9]) + 1]
    stopped = decoded(PROMPTS[:1], **settings, stop_strings=[f"<{text[6]}><{text[7]}>"], tokenizer=Words())
    assert stopped.new_tokens[0] == text[:8]


# --- as a decoding method of transformers


def test_as_a_decoding_method_of_transformers() -> None:
    streamer = Mock()
    settings: dict[str, Any] = {"paths": 3, "depth": 4, "seed": 7}
    output = theirs(multi_draft(DRAFT, streamer=streamer, **settings), PROMPTS[:1], return_dict_in_generate=True)
    put = [call.args[0].flatten() for call in streamer.put.call_args_list]
    assert output.sequences.tolist() == decoded(PROMPTS[:1], **settings).sequences.tolist() == [torch.cat(put).tolist()]
    assert (output.metrics.tokens, output.metrics.target_calls) == (12, len(put) - 1)
    streamer.end.assert_called_once_with()
    method = multi_draft(DRAFT, paths=3, depth=4, solver="interval")
    greedy = TARGET.generate(PROMPTS, custom_generate=method, max_new_tokens=12)
    assert greedy[:, 3:].tolist() == greedily(PROMPTS.tolist(), 12)
    more = {"custom_generate": method, "max_new_tokens": 12, "assistant_model": tiny(40, 3, 1)}  # it changes nothing
    assert TARGET.generate(PROMPTS[:1], **more).tolist() == greedy[:1].tolist()


def test_it_is_a_record_that_can_be_sent() -> None:
    # Models of its own: one that was asked for hidden states keeps hooks of transformers, which cannot be sent.
    target, draft = (tiny.__wrapped__(40, seed) for seed in (0, 1))
    settings: dict[str, Any] = {"paths": 2, "depth": 3, "solver": "block", "seed": 1}
    method = pickle.loads(pickle.dumps(multi_draft(draft, **settings)))
    output = target.generate(PROMPTS, custom_generate=method, do_sample=True, top_k=0, max_new_tokens=5)
    assert output.tolist() == decoded(models=(target, draft), max_new_tokens=5, **settings).sequences.tolist()


def test_settings_of_the_drafts_reach_the_draft_model_by_every_way() -> None:
    """By all of them the same text comes, and not the text that comes without the setting."""
    without = decoded(seed=1).sequences.tolist()
    methods: tuple[Any, ...] = (speculative, block, typical)
    plain = [run(TARGET, method(DRAFT, depth=3), PROMPTS, max_new_tokens=8, seed=1).new_tokens for method in methods]
    for setting in ({"draft_temperature": 0.3}, {"draft_top_k": 2}, {"draft_top_p": 0.4}):
        ours = decoded(seed=1, **setting).sequences.tolist()
        assert theirs(multi_draft(DRAFT, seed=1, **setting)).tolist() == ours != without
        for method, other in zip(methods, plain, strict=True):
            strategy = method(DRAFT, depth=3, **setting)
            assert run(TARGET, strategy, PROMPTS, max_new_tokens=8, seed=1).new_tokens != other, (method, setting)
