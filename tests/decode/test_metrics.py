"""What is said of texts: sums that merge, times of phases, and log-probabilities of tokens."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch

from otspec.decode import Generation, run
from otspec.decode.base.metrics import Clock, Metrics, PhaseSwitch
from otspec.decode.methods import DynamicTree, PromptLookup, Vanilla, block, typical
from otspec.decode.methods.multi_draft import MultiDraft
from otspec.decode.step.strategy import Strategy
from otspec.decode.verify import step
from tests.decode.models import pair
from tests.each import each


def _metrics(*steps: tuple[int, int]) -> Metrics:
    metrics = Metrics(target_calls=len(steps))
    for levels, accepted in steps:
        metrics.step(levels, accepted, 1 + 2 * levels, accepted + 1)
    return metrics


def test_two_runs_together_are_one_run_of_all_steps() -> None:
    one, other = _metrics((3, 1), (2, 2)), _metrics((4, 0), (0, 0), (4, 4))
    both = one + other
    assert both == _metrics((3, 1), (2, 2), (4, 0), (0, 0), (4, 4))
    assert (both.offered, both.accepted) == ([4, 4, 3, 2], [3, 2, 1, 1])
    assert both.acceptance == [3 / 4, 2 / 4, 1 / 3, 1 / 2]
    assert both.block_efficiency == 12 / 5
    assert Metrics(**json.loads(json.dumps(one.record()))) == one
    assert np.isnan(Metrics().block_efficiency)
    both.step(4, 3, 9, 2)  # what lies behind an end was neither offered nor accepted
    both.step(2, 2, 5, 3)
    assert (both.offered, both.accepted) == ([6, 6, 3, 2], [5, 4, 1, 1])
    assert (both.tokens, both.committed, both.num_drafts) == (17, 16, 6)
    assert (both.num_accepted_tokens, both.mean_acceptance_length) == (11, 16 / 6)
    assert (both.num_draft_tokens, both.acceptance_rate) == (38, 11 / 38)
    assert (Metrics(seconds={"draft": 2.0}) + Metrics(seconds={"draft": 1.0})).seconds == {"draft": 3.0}


def test_an_end_among_accepted_drafts_ends_what_is_counted() -> None:
    target, _ = pair()

    def greedy(ids: Any, **options: Any) -> Any:
        return run(target, block(target, 5), ids, temperature=0, **options)

    prompts = (torch.tensor([[1, second]]) for second in range(20))
    texts = ((ids, greedy(ids, max_new_tokens=3).new_tokens[0]) for ids in prompts)
    ids, text = next((ids, text) for ids, text in texts if text[2] not in text[:2])
    found = greedy(ids, max_new_tokens=9, eos_token_id=text[2])
    assert found.new_tokens[0] == text
    assert (found.metrics.mean_acceptance_length, found.metrics.num_accepted_tokens) == (3.0, 3)
    assert found.metrics.acceptance_rate_per_position[:3] == found.metrics.acceptance[:3] == [1, 1, 1]


def test_texts_have_metrics_of_their_own() -> None:
    target, draft = pair()
    ids = torch.tensor([[1, 2], [3, 4], [5, 6]])
    found = run(target, block(draft, 3), ids, max_new_tokens=9, seed=1)
    total = sum(found.metrics_of_texts[1:], start=found.metrics_of_texts[0])
    assert total.as_served() == {name: getattr(found.metrics, name) for name in total.as_served()}
    assert [one.tokens for one in found.metrics_of_texts] == [9, 9, 9]
    assert total.sequence_steps == found.metrics.sequence_steps == total.target_calls
    alone = run(target, block(draft, 3), ids[:1], max_new_tokens=9, seed=1)
    assert alone.metrics_of_texts[0].as_served() == alone.metrics.as_served()


@each(
    case=[
        (Vanilla(), "drawn_of_scores"),
        (block(pair()[1], 2, draft_top_k=3), "merged_of_scores"),
        (typical(pair()[1], 2, 2), "to_host"),
    ]
)
def test_what_waits_for_the_device_is_timed_there_and_nothing_is_timed_twice(case: tuple[Strategy, str]) -> None:
    """A wait for the target's pass that was timed on the host as well would count the pass twice on a GPU."""
    strategy, comes = case
    open_spans: list[str] = []
    seen: set[tuple[str, str]] = set()

    def span(kind: str) -> Callable[..., Any]:
        @contextmanager
        def timed(clock: Clock, phase: str) -> Iterator[PhaseSwitch]:
            assert not open_spans, (phase, open_spans)
            open_spans.append(f"{phase} on {kind}")
            yield PhaseSwitch(phase, lambda *_: None, lambda: 0.0)
            open_spans.pop()

        return timed

    def noting(name: str) -> Callable[..., Any]:
        plain = getattr(step, name)

        def noted(*args: Any) -> Any:
            seen.add((name, open_spans[-1]))
            return plain(*args)

        return noted

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Clock, "on_device", span("device"))
        patched.setattr(Clock, "on_host", span("host"))
        for name in ("drawn_of_scores", "merged_of_scores", "to_host", "compact_trees", "verify"):
            patched.setattr(step, name, noting(name))
        run(pair()[0], strategy, torch.tensor([[1, 2, 3]]), max_new_tokens=7, seed=0)
    assert (comes, "verification on device") in seen
    seen -= {("drawn_of_scores", "verification on host")} if comes == "merged_of_scores" else set()  # of a CPU alone
    hosts = {"compact_trees", "verify"}
    assert all(where == f"verification on {'host' if name in hosts else 'device'}" for name, where in seen), seen


# --- log-probabilities, against a pass over the whole text of each

NEW = 10
WAYS: dict[str, Any] = {
    "plain": lambda draft: Vanilla(),
    "three paths": lambda draft: MultiDraft(draft, paths=3, depth=3, solver="nested"),
    "a tree": lambda draft: MultiDraft(draft, branching=(2, 2), solver="interval"),
    "siblings": lambda draft: MultiDraft(draft, branching=(2, 2), law="without_replacement", solver="pick_by_plan"),
    "prompt lookup": lambda draft: PromptLookup(depth=3),
    "dynamic tree": lambda draft: DynamicTree(draft, depth=3),
}
PROMPTS = torch.tensor([[0, 3, 4, 3], [5, 3, 5, 3]])
MASK = torch.tensor([[0, 1, 1, 1], [1, 1, 1, 1]])


def decoded(way: str, **settings: Any) -> Generation:
    target, draft = pair(12)
    inputs = {"max_new_tokens": NEW, "seed": 3, "attention_mask": MASK, "eos_token_id": None, "pad_token_id": 0}
    return run(target, WAYS[way](draft), PROMPTS, **{**inputs, **settings})


@each(case=[(way, temperature) for way in WAYS for temperature in (1.0, 0.6, 0.0)])
def test_they_are_those_of_the_target_after_temperature_and_before(case: tuple[str, float]) -> None:
    """In one pass over the whole text; at one temperature of the four likeliest tokens."""
    way, temperature = case
    top_k = 4 if temperature == 0.6 else 12
    found = decoded(way, temperature=temperature, logprobs=3, **({"top_k": top_k} if temperature else {}))
    for row, tokens in enumerate(found.new_tokens):
        prompt = PROMPTS[row][MASK[row].bool()].tolist()
        with torch.no_grad():
            logits = pair(12)[0](torch.tensor([[*prompt, *tokens]])).logits[0, len(prompt) - 1 : -1]
        at, raw = torch.tensor(tokens)[:, None], logits.log_softmax(-1)
        kept = logits.masked_fill(logits < logits.topk(top_k).values[:, -1:], -torch.inf)
        scaled = (kept / temperature).log_softmax(-1).gather(1, at)[:, 0] if temperature else torch.zeros(NEW)
        np.testing.assert_allclose(found.raw_logprobs[row], raw.gather(1, at)[:, 0], atol=1e-5)
        np.testing.assert_allclose(found.logprobs[row], scaled, atol=1e-5)
        likeliest = raw.topk(3)
        assert [list(top) for top in found.top_logprobs[row]] == likeliest.indices.tolist()
        np.testing.assert_allclose([list(top.values()) for top in found.top_logprobs[row]], likeliest.values, atol=1e-5)


def test_texts_that_end_early_have_one_for_each_token_and_nothing_is_kept_where_nobody_asks() -> None:
    found = decoded("three paths", logprobs=1, eos_token_id=list(range(6)))
    assert [len(own) for own in found.logprobs] == [len(own) for own in found.new_tokens]
    assert min(map(len, found.logprobs)) < NEW
    silent = decoded("three paths", eos_token_id=list(range(6)))
    assert silent.new_tokens == found.new_tokens
    assert not any((silent.logprobs, silent.raw_logprobs, silent.top_logprobs))
