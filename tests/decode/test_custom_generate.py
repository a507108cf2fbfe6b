"""As a decoding method of transformers: `model.generate(custom_generate=multi_draft(...))`."""

import pickle
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import otspec  # noqa: E402
from otspec import ProblemError  # noqa: E402
from otspec.decode import multi_draft, run  # noqa: E402
from otspec.decode.methods import block, speculative, typical  # noqa: E402
from tests.decode.models import Streamer, Words, greedy_text, pair, tiny  # noqa: E402

PROMPTS = torch.tensor([[1, 2, 3], [4, 5, 6]])


def test_as_a_decoding_method_of_transformers() -> None:
    target, draft = pair(40)
    streamer = Streamer()
    method = multi_draft(draft, paths=3, depth=4, seed=7, streamer=streamer)
    settings = {"max_new_tokens": 12, "do_sample": True, "top_k": 0}
    output = target.generate(PROMPTS[:1], custom_generate=method, return_dict_in_generate=True, **settings)
    ours = otspec.generate(target, draft, PROMPTS[:1], max_new_tokens=12, paths=3, depth=4, seed=7)
    assert output.sequences.tolist() == ours.sequences.tolist() == [streamer.tokens]
    assert (output.metrics.tokens, streamer.ended) == (12, True)
    token_wise = multi_draft(draft, paths=3, depth=4, solver="interval")
    greedy = target.generate(PROMPTS, custom_generate=token_wise, max_new_tokens=12)
    assert greedy.tolist() == [greedy_text(target, prompt, 12) for prompt in PROMPTS.tolist()]


def test_settings_of_the_drafts_reach_the_draft_model_by_every_way() -> None:
    """By all of them the same text comes, and not the text that comes without the setting."""
    target, draft = pair(40)
    methods: tuple[Any, ...] = (speculative, block, typical)
    without = otspec.generate(target, draft, PROMPTS, max_new_tokens=12, seed=1).sequences.tolist()
    plain = [run(target, method(draft, depth=3), PROMPTS, max_new_tokens=12, seed=1).new_tokens for method in methods]
    for setting in ({"draft_temperature": 0.3}, {"draft_top_k": 2}, {"draft_top_p": 0.4}):
        ours = otspec.generate(target, draft, PROMPTS, max_new_tokens=12, seed=1, **setting)
        theirs = target.generate(
            PROMPTS, custom_generate=multi_draft(draft, seed=1, **setting), do_sample=True, top_k=0, max_new_tokens=12
        )
        assert theirs.tolist() == ours.sequences.tolist() != without
        for method, other in zip(methods, plain, strict=True):
            generation = run(target, method(draft, depth=3, **setting), PROMPTS, max_new_tokens=12, seed=1)
            assert generation.new_tokens != other, (method, setting)


def test_a_decoding_method_of_transformers_is_a_record_that_can_be_sent() -> None:
    # Models of its own: one that was asked for hidden states keeps hooks of transformers, which cannot be sent.
    target, draft = (tiny.__wrapped__(40, seed) for seed in (0, 1))
    method = pickle.loads(pickle.dumps(multi_draft(draft, paths=2, depth=3, solver="block", seed=1)))
    output = target.generate(PROMPTS, custom_generate=method, do_sample=True, top_k=0, max_new_tokens=5)
    ours = otspec.generate(target, draft, PROMPTS, paths=2, depth=3, solver="block", seed=1, max_new_tokens=5)
    assert output.tolist() == ours.sequences.tolist()


def test_an_assistant_model_beside_the_decoding_method_changes_nothing() -> None:
    target, draft = pair(40)
    settings = {"custom_generate": multi_draft(draft, paths=2, depth=3), "max_new_tokens": 5}
    alone = target.generate(PROMPTS[:1], **settings)
    assert target.generate(PROMPTS[:1], assistant_model=tiny(40, 3, 1), **settings).tolist() == alone.tolist()


def test_a_decoding_method_checks_the_pair_and_the_request() -> None:
    target, words = pair(40)[0], Words()
    with pytest.raises(ProblemError, match="the target has 40 tokens and the draft model 37"):
        target.generate(PROMPTS, custom_generate=multi_draft(tiny(37, 2)), max_new_tokens=2)
    method = multi_draft(tiny(37, 2), paths=2, depth=3, tokenizer=words, draft_tokenizer=words)
    assert target.generate(PROMPTS, custom_generate=method, max_new_tokens=4).shape == (2, 7)
    with pytest.raises(ProblemError, match="2 prompts and one streamer"):
        target.generate(PROMPTS, custom_generate=multi_draft(pair(40)[1], streamer=Streamer()), max_new_tokens=2)
