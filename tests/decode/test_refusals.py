"""What cannot be meant is refused by name, before anything is decoded; so is a target without a law after some text."""

import copy
import math
import re
from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from transformers import GenerationConfig, LogitsProcessorList

from otspec import ProblemError, SolveError, UnknownSolver, generate
from otspec.decode import Budget, Frequent, MultiDraft, model_after, multi_draft, run, train_router
from otspec.decode.base.sampling import Sampling
from otspec.decode.drafters.heads.model import MedusaHeads, MlpSpeculator
from otspec.decode.drafters.sd2.model import Steered
from otspec.decode.methods import DynamicTree, Lookahead, PromptLookup, Typical, assisted, assisted_lookup, block, plain
from otspec.decode.methods.likely_enough import GreedyLenience
from otspec.decode.pair.loading import Models
from otspec.decode.recording.accuracies import accuracies
from otspec.decode.step.strategy import Strategy
from otspec.verification import Nested
from otspec.vocab import affinity_from_factor
from tests.contracts.draft_models import matching, random_router, shared
from tests.decode import published
from tests.decode.models import Words, pair, spoilt, tiny
from tests.each import each
from tests.refusals import check_refused

PROMPTS = torch.tensor([[1, 2, 3], [4, 2, 3]])
TARGET, DRAFT = pair(40)
OTHER = Words()
OTHER.get_vocab = lambda: {**Words().get_vocab(), "<3>": 4, "<4>": 3}  # type: ignore[method-assign]
WHOLE = Sampling(LogitsProcessorList(), True)


WRONG: list[tuple[str, dict[str, Any]]] = [
    # Lengths, seeds, temperatures and truncations, ends.
    ("max_new_tokens is 0", {"max_new_tokens": 0}),
    *((f"seed is {seed}", {"seed": seed}) for seed in (-1, 2**62 + 1)),
    (r"temperature is -1\.0", {"temperature": -1.0}),
    ("temperature is 1e-40, .* pass 0 for greedy", {"temperature": 1e-40}),
    ("top_p is 2", {"top_p": 2}),
    (r"top_k is 1\.5", {"top_k": 1.5}),
    (r"stop_strings are \['a', 3\]", {"stop_strings": ["a", 3]}),
    ("pass tokenizer=", {"stop_strings": "a"}),
    ("logprobs is -1", {"logprobs": -1}),
    # What contradicts itself, or would be ignored; prompts.
    ("do_sample is False, .* and temperature is 0.7", {"do_sample": False, "temperature": 0.7}),
    ("temperature is 0, .* and do_sample is True", {"do_sample": True, "temperature": 0}),
    (
        "generation_config is False, .* top_p is 0.5",
        {"generation_config": GenerationConfig(do_sample=False), "top_p": 0.5},
    ),
    ("num_beams is 2", {"num_beams": 2}),
    ("output_scores cannot be given", {"output_scores": True, "return_dict_in_generate": True}),
    ("labels cannot be passed on", {"labels": PROMPTS}),
    *((f"{name} would be ignored", {name: "low"}) for name in ("position_ids", "dola_layers")),
    ("2 prompts and one streamer", {"streamer": Mock()}),
    ("attention_mask holds other numbers than 0", {"attention_mask": torch.tensor([[-1e9, 0, 0], [0, 0, 0]])}),
    (r"attention_mask has shape \(2, 2\), and input_ids \(2, 3\)", {"attention_mask": torch.ones(2, 2)}),
    ("prompt 1 is empty", {"attention_mask": torch.tensor([[1, 1, 1], [0, 0, 0]])}),
    ("past_key_values holds tokens already", {"past_key_values": TARGET(PROMPTS, use_cache=True).past_key_values}),
    *((f"{name} is (int|3); pass", {name: 3}) for name in ("generation_config", "draft_shortlist", "branching")),
    ("the tokenizer, Words, is no fast tokenizer", {"tokenizer": Words(), "draft_tokenizer": OTHER}),
    # What is drafted, and how it is verified; of fewer tokens.
    ("paths is 0; pass an integer >= 1", {"paths": 0}),
    ("1,000,000 paths of 3 tokens have 3,000,001 slots", {"paths": 1_000_000}),
    ("a tree of 90,301 slots takes some", {"branching": (300, 300)}),
    ("41 different children of one node, and 40 tokens", {"law": "top_k", "branching": (41, 1)}),
    ("no draft law", {"law": "beam"}),
    (r"hub_pairs draws at most 2 children of a node, .* \(3, 2\)", {"law": "hub_pairs", "branching": (3, 2)}),
    ("Nested'> is no solver; pass a name", {"solver": Nested}),
    ("block is for i.i.d. drafts of one draft model", {"solver": "block", "law": "greedy"}),
    ("for siblings that are drawn jointly", {"solver": "pick_by_plan"}),
    ("needs as many children on every level", {"law": "greedy", "solver": "pick_by_plan", "branching": (2, 1)}),
    ("lp: LIMIT", {"solver": "lp:max_cells=1"}),
    ("verify_on is 'gpu'; pass 'device', 'host', or None", {"verify_on": "gpu"}),
    ("verify_on is 'device', and the rule is TokenWise", {"solver": "max_flow", "verify_on": "device"}),
    (r"draft_temperature is -1; it is finite and >= 0", {"draft_temperature": -1}),
    ("draft_top_k is -3; pass an integer >= 1", {"draft_top_k": -3}),
    (r"draft_top_p is 0; it is a probability in \(0, 1\]", {"draft_top_p": 0}),
    ("draft_confidence is 1.5; it is a probability", {"draft_confidence": 1.5}),
    ("and 2 are drafted side by side here", {"paths": 2, "draft_confidence": 0.5}),
    ("draft_tokens holds no token; pass the ids", {"draft_tokens": []}),
    ("draft_tokens holds 40; token ids run from 0 to 39", {"draft_tokens": [2, 40]}),
    ("draft_tokens and draft_kernel are both given", {"draft_tokens": [1], "draft_kernel": np.eye(40)}),
    ("draft_kernel has a row for token 40, and the draft model's tokens run", {"draft_kernel": np.eye(41)}),
    (r"pass its \.nearest\(64\)", {"draft_kernel": affinity_from_factor(np.ones((40, 1)))}),
]
"""What is said, as a regular expression, and what `generate` is asked for."""


@each(case=WRONG)
def test_settings_that_cannot_be_are_refused_by_name(case: tuple[str, dict[str, Any]]) -> None:
    message, request = case
    both = {"do_sample", "attention_mask"} & request.keys() and "empty" not in message
    decodes = (generate, assisted) if both else (generate,)
    for decode in decodes:
        with pytest.raises((ProblemError, SolveError, UnknownSolver), match=message):
            decode(TARGET, DRAFT, PROMPTS, **{"max_new_tokens": 3, **request})


def of(models: Any, prompts: Any = PROMPTS, decode: Callable[..., object] = generate, **more: Any) -> Any:
    """A call for these models."""
    return lambda: decode(*models, prompts, **{"max_new_tokens": 3, **more})


def stopping() -> Any:
    """A target whose own configuration has a stop string."""
    target = copy.deepcopy(TARGET)
    target.generation_config.stop_strings = ["end"]
    return target


def looking(width: int = 16) -> Any:
    """Heads that were trained for hidden states of this width."""
    made = MlpSpeculator.of(TARGET, 2)
    made.config.feature_width = width
    return made


PAIR, POOR, THREE = (TARGET, DRAFT), pair(40, noise=1.0)[1], Models(TARGET, None, MedusaHeads.of(TARGET, 3))
EAGLE1 = published.read(published.eagle(8), tiny())
SEVERAL: dict[str, Any] = {"law": "independent"}
CALLS: list[tuple[str, Callable[[], object]]] = [
    # Prompts and models that do not go together, cannot be made, or read no text; times, shortlists.
    ("token 40, at place 1 of prompt 1, is none of the target's 40", of(PAIR, torch.tensor([[1, 2, 3], [1, 40, 3]]))),
    *(
        ("shape .*; .* each prompt of at least one token", of(PAIR, torch.zeros(size, dtype=torch.int64), decode))
        for size in ((1, 0), (0, 3), (3,))
        for decode in (generate, assisted)
    ),
    ("input_ids are list; pass a tensor", of(PAIR, [[1, 2, 3]])),
    (r"stop_strings of the target's generation_config are text \(\['end'\]\)", lambda: of((stopping(), DRAFT))()),
    ("the target has 40 tokens and the draft model 37", of((TARGET, tiny(37, 2)), tokenizer=Words())),
    ("40 .* 37", lambda: TARGET.generate(PROMPTS, custom_generate=multi_draft(tiny(37, 2)), max_new_tokens=3)),
    ("hidden states after 3 layers are wanted, and .* has 2", of((TARGET, MedusaHeads.of(tiny(40, layers=3), 2)))),
    ("width 16, and the draft model was trained with 8", of((TARGET, looking(8)))),
    ("the head of MlpSpeculator cannot be computed for some tokens only", of((TARGET, looking()), draft_tokens=[1, 2])),
    (r"2 draft models, and law is 'iid'; several draft by law=\"independent\"", of((TARGET, [POOR, DRAFT]))),
    (r"as many of each, .*\(3, 1.*; pass paths=2, or a multiple", of((TARGET, [POOR, DRAFT]), paths=3, **SEVERAL)),
    (r"draft independent paths, .* \(2, 2\)", of((TARGET, [POOR, DRAFT]), branching=(2, 2), **SEVERAL)),
    ("0 draft models", of((TARGET, []), **SEVERAL)),
    ("nested is for .* of one draft model", of((TARGET, [POOR, DRAFT]), solver="nested", **SEVERAL)),
    ("for independent paths name a solver", of((TARGET, [POOR, DRAFT]), solver="pick_by_plan", **SEVERAL)),
    ("drafts without others beside it", of((TARGET, [DRAFT, looking()]), **SEVERAL)),
    ("heads is 0", lambda: MedusaHeads.of(TARGET, 0)),
    ("width is -1", lambda: MlpSpeculator.of(TARGET, 2, -1)),
    ("MlpSpeculator drafts from its target's hidden states, and reads no text by itself", lambda: looking()(PROMPTS)),
    ("place is 'gate'; known: up, after", lambda: Steered.of(DRAFT, (0, 1, 2), 16, "gate")),
    ("the draft model is a MlpSpeculator; one that receives", lambda: Steered.of(looking(), (0, 1, 2), 16)),
    *(("order has shape", lambda order=order: Frequent(order, 1)) for order in ([], [0.5])),
    ("twice", lambda: Frequent([1, 1], 1)),
    ("below 0", lambda: Frequent([-1, 1], 1)),
    ("the budget is 3 tokens, and order ranks 2", lambda: Frequent([1, 2], 3)),
    ("most", lambda: Frequent([1, 2], 0)),
    ("order holds 9, and the draft model's tokens run from 0 to 7", lambda: Frequent([1, 9], 2).head(tiny(), WHOLE, 8)),
    ("the budget is 3 clusters, and the router has 2", lambda: random_router(tiny(), [0, 1] * 4, 3)),
    ("a budget of at least 4 and at most 3", lambda: Budget(3, least=4)),
    ("falling", lambda: Budget(3, falling=-1)),
    ("a dynamic tree is of one draft model; pass it alone", lambda: DynamicTree([DRAFT, DRAFT])),
    ("4 tokens that it was trained with", lambda: DynamicTree(shared(tiny(8), 0, (0, 2, 4, 6)), draft_tokens=[1])),
    ("with the target's tokenizer, and this one has another", lambda: DynamicTree(DRAFT, matching=matching())),
    ("trained for another target than this Llama", of((tiny(8, seed=1), shared(tiny(8))))),
    ("there are no texts", lambda: train_router(tiny(), [[]])),
    ("seed is -1; pass one integer", lambda: train_router(tiny(), [[1]], seed=-1)),
    ("published layers draft without a router", lambda: train_router(EAGLE1, [[1, 2]], target=tiny())),
    ("token 8 of a text is none of the draft model's 8; use", lambda: train_router(tiny(), [[1, 8]], clusters=2)),
    ("token -1 of a text is none of", lambda: train_router(tiny(), [[-1]], clusters=2, likeliest=2)),
    ("9 clusters", lambda: train_router(tiny(), [[1]], clusters=9)),
    # Tokens that the target does not know; methods, laws after a text, accuracies.
    ("draft_tokens holds 9, and the target's tokens run from 0 to 7", lambda: drafted_for_8(draft_tokens=[1, 9])),
    ("draft_kernel is for 10 tokens, and the target has 8", lambda: drafted_for_8(draft_kernel=np.eye(10))),
    ("ngram is 1; n-grams of 2 tokens or more", lambda: Lookahead(ngram=1)),
    (r"epsilon is 0; it is in \(0, 1\]", lambda: Typical(epsilon=0)),
    (r"lenience is 1.5; it is in \(0, 1\]", lambda: GreedyLenience(1.5)),
    ("no schedule 'magic'; known: constant, heuristic", of(PAIR, PROMPTS[:1], assisted, schedule="magic")),
    (r"confidence is 2; it is a probability in \[0, 1\]", of(PAIR, PROMPTS[:1], assisted, confidence=2)),
    ("depth is 0; pass an integer >= 1", of(PAIR, PROMPTS[:1], assisted, depth=0)),
    ("ngram is 0; pass an integer >= 1", of((TARGET,), PROMPTS[:1], assisted_lookup, ngram=0)),
    ("pass one at a time|pass one prompt", of((TARGET,), decode=plain, stop_strings=["a"], tokenizer=object())),
    ("the text is empty", lambda: model_after(TARGET, DRAFT, [])),
    ("the target has 40 tokens, and the draft model 41", lambda: model_after(TARGET, tiny(41), [1])),
    ("a text of 1 tokens and 64 more: the model has", lambda: model_after(TARGET, DRAFT, [1]).target((1,) * 64)),
    ("no text has 3 new tokens", lambda: accuracies(Models(TARGET, None, DRAFT), [[1]], depth=3, new=2)),
    ("and 64 tokens after it are 65, and a model reads 64", lambda: accuracies(THREE, [[1]], depth=2, new=64)),
    ("drafts 3 tokens at most, and depth is 5", lambda: accuracies(THREE, [[1]], depth=5, new=8)),
]


def drafted_for_8(**settings: Any) -> object:
    """For a target of eight tokens, by a draft model of ten."""
    return MultiDraft(tiny(10), **settings).prepare(8, WHOLE, torch.Generator())


def test_calls_that_cannot_be_are_refused_by_name() -> None:
    check_refused((call, message) for message, call in CALLS)


def test_what_is_no_setting_is_refused_by_name() -> None:
    with pytest.raises(TypeError, match="MultiDraft takes no path; its settings are paths, depth, "):
        MultiDraft(DRAFT, path=3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="got own_config, which belongs to the generate"):
        multi_draft(DRAFT, own_config=False)


# --- a target without a law after some text, in the same words at every temperature

REASONS = {
    "nan": (math.nan, slice(2, 3), "logits that are nan"),
    "inf": (math.inf, slice(2, 3), "a logit of infinity"),
    "-inf": (-math.inf, slice(None), "minus infinity for all tokens"),
}


@each(value=REASONS, temperature=(0.0, 0.3, 1.0), looks_up=(False, True))
def test_the_text_and_the_reason_are_named(value: tuple[float, slice, str], temperature: float, looks_up: bool) -> None:
    strategy: Strategy = PromptLookup(depth=2) if looks_up else block(DRAFT, 3)
    number, tokens, reason = value
    with spoilt(number, 5, tokens), pytest.raises(ProblemError, match=reason) as refused:
        run(TARGET, strategy, PROMPTS, max_new_tokens=12, temperature=temperature, seed=1)
    shown = re.match(r"text 1, after (\d) new tokens(?: and (\d) drafted ones)?: ", str(refused.value))
    assert shown is not None
    assert sum(map(int, filter(None, shown.groups()))) == 2  # of three tokens and these


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_one_token_of_minus_infinity_is_impossible_and_no_more(temperature: float) -> None:
    target, draft = pair(8)
    with spoilt(-torch.inf, 0, slice(2, 3)):
        texts = run(target, block(draft, 3), PROMPTS, max_new_tokens=12, temperature=temperature, seed=1).new_tokens
    assert 2 not in texts[1]
