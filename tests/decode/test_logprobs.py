"""Log-probabilities of new tokens, against a pass over the whole text of each."""

from typing import Any

import numpy as np
import pytest
import torch

import otspec
from otspec.decode import Generation, run, shipped
from otspec.decode.methods import DynamicTree, PromptLookup, Vanilla
from otspec.decode.methods.multi_draft import MultiDraft
from tests.decode.models import pair
from tests.each import each

VOCAB, NEW = 12, 10
WAYS: dict[str, Any] = {
    "plain": lambda draft: Vanilla(),
    "one path": lambda draft: MultiDraft(draft, paths=1, depth=3, solver="block"),
    "three paths": lambda draft: MultiDraft(draft, paths=3, depth=3, solver="nested"),
    "a tree": lambda draft: MultiDraft(draft, branching=(2, 2), solver="interval"),
    "no replacement": lambda draft: MultiDraft(
        draft, branching=(2, 2), law="without_replacement", solver="pick_by_plan"
    ),
    "prompt lookup": lambda draft: PromptLookup(depth=3),
    "dynamic tree": lambda draft: DynamicTree(draft, depth=3),
}  # fmt: skip
PROMPTS = torch.tensor([[0, 3, 4, 3], [5, 3, 5, 3]])
MASK = torch.tensor([[0, 1, 1, 1], [1, 1, 1, 1]])


def decoded(way: str, **settings: Any) -> tuple[Any, Generation]:
    target, draft = pair(VOCAB)
    given = {"max_new_tokens": NEW, "seed": 3, "attention_mask": MASK, "eos_token_id": None, "pad_token_id": 0}
    return target, run(target, WAYS[way](draft), PROMPTS, **{**given, **settings})


def logits_of(target: Any, generation: Generation, row: int) -> Any:
    """Logits before each new token, from one pass over the text, float64."""
    prompt = PROMPTS[row][MASK[row].bool()].tolist()
    text = torch.tensor([[*prompt, *generation.new_tokens[row]]])
    with torch.no_grad():
        return target(text).logits[0, len(prompt) - 1 : -1].double()


@each(case=[(way, temperature) for way in WAYS for temperature in (1.0, 0.6, 0.0)])
def test_they_are_those_of_the_target_after_temperature_and_before(case: tuple[str, float]) -> None:
    way, temperature = case
    target, found = decoded(way, temperature=temperature, logprobs=3)
    for row, tokens in enumerate(found.new_tokens):
        logits = logits_of(target, found, row)
        at = torch.tensor(tokens)[:, None]
        raw = logits.log_softmax(-1)
        scaled = (logits / temperature).log_softmax(-1).gather(1, at)[:, 0] if temperature else torch.zeros(NEW)
        np.testing.assert_allclose(found.raw_logprobs[row], raw.gather(1, at)[:, 0], atol=1e-5)
        np.testing.assert_allclose(found.logprobs[row], scaled, atol=1e-5)
        likeliest = raw.topk(3)
        assert [list(top) for top in found.top_logprobs[row]] == likeliest.indices.tolist()
        np.testing.assert_allclose([list(top.values()) for top in found.top_logprobs[row]], likeliest.values, atol=1e-5)


@each(way=("plain", "one path", "three paths"))
def test_truncation_and_penalties_count(way: str) -> None:
    target, found = decoded(way, temperature=0.8, top_k=4, repetition_penalty=1.7, logprobs=0)
    assert found.top_logprobs == [[{}] * NEW] * 2
    for row, tokens in enumerate(found.new_tokens):
        before = PROMPTS[row][MASK[row].bool()].tolist()
        for number, (logits, token) in enumerate(zip(logits_of(target, found, row), tokens, strict=True)):
            seen = torch.tensor(sorted({*before, *tokens[:number]}))
            scores = logits.clone()
            scores[seen] = torch.where(scores[seen] < 0, scores[seen] * 1.7, scores[seen] / 1.7)
            scores = scores / 0.8
            scores[scores < scores.topk(4).values[-1]] = -torch.inf
            assert found.logprobs[row][number] == pytest.approx(scores.log_softmax(-1)[token].item(), abs=1e-5)
            assert found.raw_logprobs[row][number] == pytest.approx(logits.log_softmax(-1)[token].item(), abs=1e-5)


@each(way=("plain", "three paths"))
def test_texts_that_end_early_have_one_for_each_token(way: str) -> None:
    _, found = decoded(way, logprobs=1, eos_token_id=list(range(6)))
    assert [len(own) for own in found.logprobs] == [len(own) for own in found.new_tokens]
    assert min(map(len, found.logprobs)) < NEW
    pair_, tokenizer = shipped.load(), shipped.load().tokenizer
    prompt = tokenizer("def read(", return_tensors="pt")
    stopped = otspec.generate(
        pair_.target, pair_.draft, **prompt, stop_strings=["e"], tokenizer=tokenizer, logprobs=0, seed=1,
        max_new_tokens=40,
    )  # fmt: skip
    assert len(stopped.logprobs[0]) == len(stopped.new_tokens[0]) < 40


def test_they_change_no_text_and_nothing_is_kept_where_nobody_asks() -> None:
    _, asked = decoded("three paths", logprobs=2)
    _, silent = decoded("three paths")
    assert asked.new_tokens == silent.new_tokens
    assert not any((silent.logprobs, silent.raw_logprobs, silent.top_logprobs))


def test_half_precision_is_as_near_as_its_passes() -> None:
    """A pass over a tree and one over the whole text differ in the last bits of bfloat16 logits."""
    target, draft, tokenizer = shipped.load(torch.bfloat16)
    prompt = tokenizer("import numpy as", return_tensors="pt")
    found = otspec.generate(target, draft, **prompt, paths=3, depth=3, logprobs=0, max_new_tokens=32, seed=0)
    with torch.no_grad():
        logits = target(found.sequences).logits[0, prompt.input_ids.shape[1] - 1 : -1].double()
    raw = logits.log_softmax(-1).gather(1, torch.tensor(found.new_tokens[0])[:, None])[:, 0]
    assert np.abs(np.array(found.raw_logprobs[0]) - raw.numpy()).max() <= 0.15
