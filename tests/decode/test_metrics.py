"""Sums merge, and laws come to the host whole."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from otspec.decode import run
from otspec.decode.base.metrics import Clock, Metrics
from otspec.decode.methods import Vanilla, block, typical
from otspec.decode.step.strategy import Strategy
from otspec.decode.verify import step
from otspec.decode.verify.laws import to_host
from tests.decode.models import pair
from tests.each import each


def _metrics(*steps: tuple[int, int]) -> Metrics:
    metrics = Metrics(target_calls=len(steps))
    for levels, accepted in steps:
        metrics.step(levels, accepted, 1 + 2 * levels, accepted + 1)
    return metrics


def test_two_runs_together_are_one_run_of_all_steps() -> None:
    one, other = _metrics((3, 1), (2, 2)), _metrics((4, 0), (0, 0), (4, 4))
    assert one + other == _metrics((3, 1), (2, 2), (4, 0), (0, 0), (4, 4))
    assert (one + other).offered == [4, 4, 3, 2]
    assert (one + other).accepted == [3, 2, 1, 1]
    assert (one + other).acceptance == [3 / 4, 2 / 4, 1 / 3, 1 / 2]
    assert (one + other).block_efficiency == 12 / 5
    assert Metrics(**json.loads(json.dumps(one.record()))) == one
    assert np.isnan(Metrics().block_efficiency)


@settings(max_examples=100, derandomize=True, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(1, 6)), min_size=1))
def test_what_lies_behind_an_end_counts_nowhere(steps: list[tuple[int, int, int]]) -> None:
    metrics, drafted = Metrics(), []
    for levels, accepted, tokens in ((most, min(got, most), min(left, got + 1, most + 1)) for most, got, left in steps):
        metrics.step(levels, accepted, 1 + levels, tokens)
        drafted += [(tokens, min(accepted, tokens))] if levels else []
    assert metrics.committed == sum(tokens for tokens, _ in drafted)
    assert metrics.num_accepted_tokens == sum(accepted for _, accepted in drafted) <= metrics.committed
    assert all(got <= most for got, most in zip(metrics.accepted, metrics.offered, strict=True))
    assert metrics.num_drafts == len(drafted)
    if drafted:
        assert metrics.mean_acceptance_length == metrics.committed / len(drafted) <= metrics.num_draft_tokens + 1


def test_an_end_among_accepted_drafts_ends_what_is_counted() -> None:
    target, _ = pair()

    def greedy(ids: Any, **options: Any) -> Any:
        return run(target, block(target, 5), ids, temperature=0, **options)

    prompts = (torch.tensor([[1, second]]) for second in range(20))
    texts = ((ids, greedy(ids, max_new_tokens=3).new_tokens[0]) for ids in prompts)
    ids, text = next((ids, text) for ids, text in texts if text[2] not in text[:2])
    found = greedy(ids, max_new_tokens=9, eos_token_id=text[2])
    assert found.new_tokens[0] == text
    assert found.metrics.mean_acceptance_length == 3.0
    assert found.metrics.num_accepted_tokens == 3
    assert found.metrics.acceptance_rate_per_position[:3] == [1, 1, 1]
    assert found.metrics.acceptance[:3] == [1, 1, 1]


def test_texts_have_metrics_of_their_own() -> None:
    target, draft = pair()
    ids = torch.tensor([[1, 2], [3, 4], [5, 6]])
    found = run(target, block(draft, 3), ids, max_new_tokens=9, seed=1)
    total = sum(found.metrics_of_texts[1:], start=found.metrics_of_texts[0])
    for name, value in total.as_served().items():
        assert value == getattr(found.metrics, name), name
    assert [one.tokens for one in found.metrics_of_texts] == [9, 9, 9]
    assert total.sequence_steps == found.metrics.sequence_steps == total.target_calls
    alone = run(target, block(draft, 3), ids[:1], max_new_tokens=9, seed=1)
    assert alone.metrics_of_texts[0].as_served() == alone.metrics.as_served()


def test_laws_come_whole_however_many_tokens_were_foreseen() -> None:
    laws = torch.zeros(3, 20, dtype=torch.float32)
    laws[0, 7] = 1.0
    laws[1, [19, 0, 4]] = torch.tensor([0.5, 0.25, 0.25])
    laws[2, [3, 5]] = 0.5
    for support in (None, 1, 2, 3, 40):
        rows = to_host(laws, support)
        assert (rows.token is None) == (support != 3), support
        whole = np.zeros((3, 20))
        if rows.token is None:
            whole = rows.probability
        else:
            np.add.at(whole, (np.arange(3)[:, None], rows.token), rows.probability)
        np.testing.assert_array_equal(whole, laws.double().numpy(), err_msg=f"support {support}")


@each(
    case=[
        (Vanilla(), "draw"),
        (block(pair()[1], 2, draft_top_k=3), "merged_to_host"),
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
        def timed(clock: Clock, phase: str) -> Iterator[None]:
            assert not open_spans, (phase, open_spans)
            open_spans.append(f"{phase} on {kind}")
            yield
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
        for name in ("draw", "merged_to_host", "to_host", "local_trees", "verify"):
            patched.setattr(step, name, noting(name))
        run(pair()[0], strategy, torch.tensor([[1, 2, 3]]), max_new_tokens=7, seed=0)
    assert (comes, "verification on device") in seen
    hosts = {"local_trees", "verify"}
    assert all(where == f"verification on {'host' if name in hosts else 'device'}" for name, where in seen), seen


def test_the_package_itself_needs_no_torch() -> None:
    code = "import sys, otspec; assert not {'torch', 'transformers'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
