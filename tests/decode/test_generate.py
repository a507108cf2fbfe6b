"""Decoding from the outside: greedy equality, repeatability, settings, models, bad input."""

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from transformers import (  # noqa: E402
    GenerationConfig,
    GPT2Config,
    GPT2LMHeadModel,
    MistralConfig,
    MistralForCausalLM,
)

import otspec  # noqa: E402
from otspec import ProblemError, SolveError  # noqa: E402
from otspec.decode import multi_draft  # noqa: E402
from otspec.decode.methods import assisted  # noqa: E402
from tests.decode.models import Streamer, Words, greedy_text, pair, tiny  # noqa: E402

PROMPTS = torch.tensor([[1, 2, 3], [4, 5, 6]])
PADDED = torch.tensor([[0, 0, 7, 1], [3, 3, 2, 5], [0, 4, 4, 4]])
MASK = torch.tensor([[0, 0, 1, 1], [1, 1, 1, 1], [0, 1, 1, 1]])


def test_several_draft_models() -> None:
    """A second model that drafts better than the first is of use; tests/contracts has the law of the text."""
    target, good = pair(40, noise=0.05)
    poor = pair(40, noise=1.0)[1]
    efficiency = []
    for drafts in ([poor], [poor, good]):
        generation = otspec.generate(
            target, drafts, PROMPTS, max_new_tokens=17, temperature=0, law="independent", paths=4
        )
        efficiency.append(generation.metrics.block_efficiency)
    assert efficiency[0] < efficiency[1]
    method = multi_draft([poor, good], paths=2, law="independent", seed=1)
    theirs = target.generate(PROMPTS, custom_generate=method, do_sample=True, top_k=0, max_new_tokens=12)
    ours = otspec.generate(target, [poor, good], PROMPTS, paths=2, law="independent", seed=1, max_new_tokens=12)
    assert theirs.tolist() == ours.sequences.tolist()
    one = otspec.generate(target, poor, PROMPTS, paths=2, law="independent", seed=1, max_new_tokens=12)
    iid = otspec.generate(target, poor, PROMPTS, paths=2, solver="interval", seed=1, max_new_tokens=12)
    assert one.new_tokens == iid.new_tokens  # drafts of one model are i.i.d.
    for drafts, more, message in (
        ([poor, good], {}, r"2 draft models, and law is 'iid'; several draft by law=\"independent\""),
        ([poor, good], {"law": "independent", "paths": 3}, r"as many of each, .*\(3, 1.*; pass paths=2, or a multiple"),
        ([poor, good], {"law": "independent", "branching": (2, 2)}, r"draft independent paths, .* \(2, 2\)"),
        ([], {"law": "independent"}, "0 draft models"),
        ([poor, pair(41)[1]], {"law": "independent"}, "the target has 40 tokens and the draft model 41"),
        ([poor, good], {"law": "independent", "solver": "nested"}, "nested is for .* of one draft model"),
        ([poor, good], {"law": "independent", "solver": "pick_by_plan"}, "for independent paths name a solver"),
    ):
        with pytest.raises(ProblemError, match=message):
            otspec.generate(target, drafts, PROMPTS, max_new_tokens=3, **more)


def test_padding_may_stand_anywhere() -> None:
    target, draft = pair(40)
    right = torch.tensor([[7, 1, 0, 0], [3, 3, 2, 5], [4, 4, 4, 0]])
    generation = otspec.generate(
        target, draft, right, attention_mask=MASK.flip(1), max_new_tokens=6, temperature=0, pad_token_id=0
    )
    for row, prompt in enumerate([[7, 1], [3, 3, 2, 5], [4, 4, 4]]):
        assert prompt + generation.new_tokens[row] == greedy_text(target, prompt, 6)


def test_a_seed_makes_a_run_repeatable() -> None:
    target, draft = pair(40)

    def tokens(**settings: Any) -> list[list[int]]:
        return otspec.generate(target, draft, PROMPTS, max_new_tokens=12, **settings).new_tokens

    assert tokens(seed=1) == tokens(seed=1) != tokens(seed=2)
    torch.manual_seed(5)
    first = tokens()
    assert tokens() != first
    torch.manual_seed(5)
    assert tokens() == first


def test_a_generation_configuration_speaks_for_what_is_not_given() -> None:
    target, draft = pair(40)
    config = GenerationConfig(do_sample=True, top_k=1, max_new_tokens=6)
    generation = otspec.generate(target, draft, PROMPTS, generation_config=config)
    assert PROMPTS[0].tolist() + generation.new_tokens[0] == greedy_text(target, PROMPTS[0].tolist(), 6)


def test_greedy_decoding_by_another_name() -> None:
    target, draft = pair(40)
    greedy = [greedy_text(target, prompt, 6)[3:] for prompt in PROMPTS.tolist()]
    config = GenerationConfig(do_sample=False, max_new_tokens=6)
    for settings in ({"do_sample": False}, {"do_sample": False, "temperature": 0}, {"generation_config": config}):
        for seed in range(3):
            generation = otspec.generate(target, draft, PROMPTS, seed=seed, **{"max_new_tokens": 6, **settings})
            assert generation.new_tokens == greedy, settings
        assert assisted(target, draft, PROMPTS[:1], **{"max_new_tokens": 6, **settings}).new_tokens == greedy[:1]


def test_a_temperature_beside_a_configuration_that_does_not_say_how() -> None:
    target, draft = pair(40)

    def tokens(**settings: Any) -> list[list[int]]:
        return otspec.generate(target, draft, PROMPTS, seed=1, max_new_tokens=6, **settings).new_tokens

    plain = tokens(temperature=0.7)
    assert tokens(temperature=0.7, top_k=0, generation_config=GenerationConfig()) == plain
    config = GenerationConfig(do_sample=False)
    assert tokens(temperature=0.7, top_k=0, generation_config=config, do_sample=True) == plain
    assert tokens(do_sample=True) == tokens()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"do_sample": False, "temperature": 0.7}, "do_sample is False, .* and temperature is 0.7"),
        ({"do_sample": False, "top_k": 5}, "do_sample is False, .* and top_k is 5"),
        ({"do_sample": True, "temperature": 0}, "temperature is 0, .* and do_sample is True"),
        (
            {"generation_config": GenerationConfig(do_sample=False), "top_p": 0.5},
            "do_sample of generation_config is False, .* and top_p is 0.5",
        ),
        ({"attention_mask": torch.ones(2, 2)}, r"attention_mask has shape \(2, 2\), and input_ids \(2, 3\)"),
        ({"attention_mask": torch.ones(3)}, r"attention_mask has shape \(3,\)"),
        ({"max_new_tokens": 62}, "get 65 tokens long, and the target knows 64 positions; ask for at most 61 new"),
    ],
    ids=str,
)
def test_nothing_that_is_asked_for_is_ignored(settings: dict[str, Any], message: str) -> None:
    for decode in (otspec.generate, assisted):
        if decode is otspec.generate or "max_new_tokens" not in settings:
            with pytest.raises(ProblemError, match=message):
                decode(*pair(40), PROMPTS, **{"max_new_tokens": 3, **settings})


def test_as_many_tokens_as_there_are_positions() -> None:
    target, draft = pair(40)
    mask = torch.tensor([[0, 1, 1]])
    generation = otspec.generate(target, draft, PROMPTS[:1], attention_mask=mask, max_new_tokens=62, seed=1)
    assert len(generation.new_tokens[0]) == 62
    with pytest.raises(ProblemError, match=r"get 65 tokens long, .* ask for at most 62 new tokens"):
        otspec.generate(target, draft, PROMPTS[:1], attention_mask=mask, max_new_tokens=63)


def test_processors_that_read_the_text() -> None:
    target, draft = pair(40)
    settings: dict[str, Any] = {"max_new_tokens": 14, "repetition_penalty": 1.5, "no_repeat_ngram_size": 2}
    ours = otspec.generate(target, draft, PADDED, attention_mask=MASK, temperature=0, pad_token_id=0, **settings)
    theirs = target.generate(PADDED, attention_mask=MASK, do_sample=False, pad_token_id=0, **settings)
    assert ours.sequences.tolist() == theirs.tolist()


def test_learned_positions_are_never_exceeded() -> None:
    torch.manual_seed(0)
    target, draft = (
        GPT2LMHeadModel(
            GPT2Config(
                vocab_size=40, n_positions=size, n_embd=16, n_layer=1, n_head=2, bos_token_id=None, eos_token_id=None
            )
        )
        .double()
        .eval()
        for size in (24, 15)
    )
    generation = otspec.generate(target, draft, PROMPTS, max_new_tokens=21, temperature=0, depth=6)
    assert generation.sequences.tolist() == [greedy_text(target, prompt, 21) for prompt in PROMPTS.tolist()]


def test_vocabularies_of_different_size() -> None:
    target, words = pair(40)[0], Words()
    for vocab in (37, 44):
        draft = tiny(vocab, 2)
        with pytest.raises(ProblemError, match=f"the target has 40 tokens and the draft model {vocab}"):
            otspec.generate(target, draft, PROMPTS, max_new_tokens=4)
        generation = otspec.generate(
            target, draft, PROMPTS, max_new_tokens=12, seed=1, tokenizer=words, draft_tokenizer=words
        )
        assert generation.metrics.tokens == 24


def test_tokenizers_that_differ() -> None:
    other = Words()
    other.get_vocab = lambda: {**Words().get_vocab(), "<3>": 4, "<4>": 3}  # type: ignore[method-assign]
    with pytest.raises(ProblemError, match="the tokenizer, Words, is no fast tokenizer"):
        otspec.generate(*pair(40), PROMPTS, tokenizer=Words(), draft_tokenizer=other)


def test_prompts_without_tokens() -> None:
    for shape, named in (((1, 0), r"\(1, 0\)"), ((0, 3), r"\(0, 3\)"), ((3,), r"\(3,\)")):
        for decode in (otspec.generate, assisted):
            with pytest.raises(ProblemError, match=f"shape {named}; .* each prompt of at least one token"):
                decode(*pair(40), torch.zeros(shape, dtype=torch.int64))


def test_paths_behind_a_stem_are_verified_jointly() -> None:
    settings = {"branching": (1, 1, 4, 1, 1), "max_new_tokens": 12, "seed": 3}
    named = otspec.generate(*pair(40), PROMPTS, solver="nested", **settings)  # type: ignore[arg-type]
    default = otspec.generate(*pair(40), PROMPTS, **settings)  # type: ignore[arg-type]
    node_by_node = otspec.generate(*pair(40), PROMPTS, solver="interval", **settings)  # type: ignore[arg-type]
    assert [len(text) for text in named.new_tokens] == [12, 12]
    assert named.new_tokens == default.new_tokens
    assert named.new_tokens != node_by_node.new_tokens


def test_a_prompt_that_is_all_padding() -> None:
    with pytest.raises(ProblemError, match="prompt 1 is empty"):
        otspec.generate(*pair(40), PROMPTS, attention_mask=torch.tensor([[1, 1, 1], [0, 0, 0]]), max_new_tokens=3)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"solver": "nested", "law": "independent"}, "nested is for i.i.d. drafts of one draft model"),
        ({"solver": "block", "law": "greedy"}, "block is for i.i.d. drafts of one draft model"),
        ({"solver": "pick_by_plan"}, "for siblings that are drawn jointly"),
        ({"solver": "pick_by_plan", "law": "greedy"}, "as many children on every level"),
        ({"law": "top_k", "branching": (41, 1)}, "41 different children of one node, and 40 tokens"),
        ({"paths": 0}, "paths is 0"),
        ({"paths": 1_000_000}, "1,000,000 paths of 3 tokens have 3,000,001 slots"),
        ({"branching": (300, 300)}, "a tree of 90,301 slots takes some"),
        ({"num_beams": 2}, "num_beams is 2"),
        ({"output_scores": True, "return_dict_in_generate": True}, "output_scores cannot be given"),
        ({"labels": PROMPTS}, "labels cannot be passed on"),
        ({"streamer": Streamer()}, "2 prompts and one streamer"),
        ({"law": "beam"}, "no draft law"),
        ({"law": "hub_pairs", "branching": (3, 2)}, r"hub_pairs draws at most 2 children of a node, .* \(3, 2\)"),
    ],
    ids=lambda value: value if isinstance(value, str) else ",".join(value),
)
def test_settings_that_contradict_each_other(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ProblemError, match=message):
        otspec.generate(*pair(40), PROMPTS, max_new_tokens=3, **settings)


def test_a_solver_that_fails_has_to_have_a_successor() -> None:
    models = pair(40)
    with pytest.raises(SolveError, match="lp: LIMIT"):
        otspec.generate(*models, PROMPTS, max_new_tokens=3, solver="lp:max_cells=1")
    assert (
        otspec.generate(*models, PROMPTS, max_new_tokens=3, solver=["lp:max_cells=1", "interval"]).metrics.tokens == 6
    )


def test_a_cache_with_tokens_is_refused() -> None:
    target, draft = pair(40)
    cache = target(PROMPTS, use_cache=True).past_key_values
    with pytest.raises(ProblemError, match="past_key_values holds tokens already"):
        otspec.generate(target, draft, PROMPTS, past_key_values=cache, max_new_tokens=3)


def test_layers_that_attend_to_a_window_only() -> None:
    config = MistralConfig(
        vocab_size=40,
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        sliding_window=12,
        eos_token_id=None,
    )
    torch.manual_seed(0)
    target, draft = MistralForCausalLM(config).double().eval(), tiny(40)
    generation = otspec.generate(target, draft, PROMPTS, max_new_tokens=9, temperature=0, depth=3)
    assert generation.sequences.tolist() == [greedy_text(target, prompt, 9) for prompt in PROMPTS.tolist()]
    with pytest.raises(ProblemError, match="texts may get 13 tokens long, and some layers of the target attend to 12"):
        otspec.generate(target, draft, PROMPTS, max_new_tokens=10)
