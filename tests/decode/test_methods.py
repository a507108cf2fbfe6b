"""What is special to each method: defaults, fixed drafts, typical acceptance, and transformers' own as baselines."""

import sys
from typing import Any

import numpy as np
import pytest
import torch
from transformers import LogitsProcessorList

from otspec.decode import run
from otspec.decode.base.sampling import Sampling
from otspec.decode.drafters.lookahead import LookaheadDrafter
from otspec.decode.drafters.model import ModelDrafter
from otspec.decode.drafters.prompt_lookup import continuations
from otspec.decode.methods import Lookahead, PromptLookup, Typical, assisted, assisted_lookup, greedy_lenience, plain
from otspec.decode.methods.multi_draft import MultiDraft
from otspec.verification import Block, Nested, TokenWise, Tree, synthetic
from tests.decode.models import greedy_text, pair

PROMPTS = torch.tensor([[1, 2, 3, 1, 2], [4, 5, 6, 4, 5]])
TARGET, DRAFT = pair(40)


@pytest.mark.parametrize(
    ("settings", "branching", "rule"),
    [
        ({}, (1, 1, 1), Block),
        ({"paths": 2}, (2, 1, 1), Nested),
        ({"law": "hub_pairs"}, (2, 1, 1), TokenWise),
        ({"law": "top_k"}, (4, 1, 1), TokenWise),
    ],
)
def test_what_is_drafted_where_nothing_is_said(settings: Any, branching: tuple[int, ...], rule: type) -> None:
    prepared = MultiDraft(DRAFT, **settings).prepare(40, Sampling(LogitsProcessorList(), True), torch.Generator())
    assert isinstance(prepared.drafter, ModelDrafter)
    assert prepared.drafter.shape.branching == branching
    assert type(prepared.verifier) is rule


def test_the_latest_different_continuations() -> None:
    text = [1, 2, 3, 9, 1, 2, 4, 9, 5, 2, 7, 9, 1, 2]
    assert continuations(text, 2, 2, 9) == [[4, 9], [3, 9], [7, 9]]  # of two tokens, the latest first; then of one
    assert continuations(text, 2, 2, 2) == [[4, 9], [3, 9]]
    assert continuations(text, 1, 1, 9) == [[7], [4], [3]]
    assert continuations([5, 5, 5, 5], 2, 3, 9) == [[5], [5, 5], [5, 5, 5]]
    assert continuations([1, 8, 1, 8, 8, 1, 8], 1, 2, 9) == [[1, 8], [8, 1]]  # the same twice is one
    assert continuations([1, 2, 3], 3, 4, 9) == []


def test_a_text_that_repeats_itself_is_not_copied_thousands_of_times() -> None:
    calls: list[str] = []
    sys.setprofile(lambda frame, event, arg: calls.append(event))
    found = continuations([1, 2] * 1000, 4, 6, 9)
    sys.setprofile(None)
    assert found == [[1, 2], [1, 2] * 2, [1, 2] * 3]
    assert len(calls) < 1000  # and not some for each of 4 x 1000 places


def test_fixed_drafts_pay_where_the_text_repeats_itself() -> None:
    """Looked up, by our way and by transformers', and looked ahead for."""
    target = pair(40, seed=1)[0]  # whose greedy text goes round in circles
    for found in (
        run(target, PromptLookup(4), PROMPTS[:1], max_new_tokens=40, temperature=0),
        assisted_lookup(target, PROMPTS[:1], depth=4, max_new_tokens=40, temperature=0),
        run(target, Lookahead(2, 2, 3), PROMPTS[:1], max_new_tokens=40, temperature=0),
    ):
        assert found.new_tokens == [greedy_text(target, PROMPTS[0].tolist(), 40)[5:]]
        assert 1.15 < found.metrics.block_efficiency <= 5


def test_the_window_moves_on_with_the_text_and_the_latest_n_grams_are_drafted() -> None:
    drafter = LookaheadDrafter(2, 3, 3, 0)
    drafter.start([[5, 6, 7]])
    tree = drafter.draft([[5, 6, 7]], 4).trees[0]
    [window] = drafter._windows
    columns, above = window.columns, [list(row) for row in window._rows]
    assert [len(column) for column in columns] == [2, 3, 4]
    drafter.learn([tree], list(range(100, 100 + tree.size)))
    rows = [list(row) for row in window._rows]
    after = {tuple(tree.token[tree.line(node)].tolist()): 100 + node for node in range(tree.size)}
    assert rows == [above[1], [after[tuple(column)] for column in columns]]
    seen = [(5, 6, 7), *zip(*above, rows[1], strict=True)]
    for token in (5, 6, 7):
        assert window.continuations(token) == [tuple(rest) for first, *rest in seen[::-1] if first == token][:2]
    drafter.draft([[5, 6, 7, 1, 2, 3]], 4)  # two tokens beside the one of every step
    assert window.continuations(6)[0] == (7, 1)
    assert [row[0] for row in window._rows] == [row[2] for row in rows]
    assert all(token in (5, 6, 7) for row in window._rows for token in row[1:])
    drafter.draft([[5, 6, 7, 1, 2, 3, *range(10, 20)]], 4)
    assert all(len(row) == 3 and set(row) <= {5, 6, 7} for row in window._rows)
    text = [5, 6, 7, 1, 2, 3, *range(10, 20), 30, 1, 2, 30, 3, 4, 30, 5, 6, 30]
    tree = drafter.draft([text], 2).trees[0]  # where there is no room for the window
    assert {tuple(tree.token[tree.line(node)].tolist()) for node in range(1, tree.size)} == {(5,), (5, 6), (3,), (3, 4)}


def test_typical_acceptance_takes_the_longest_likely_path_and_asks_less_of_flat_laws() -> None:
    likely = np.array([0.9, 0.05, 0.05])
    tree = Tree.of([[1, 0], [0, 2], [0, 0]], lambda prefix: likely, lambda prefix: np.full(3, 1 / 3))
    law, verdict = Typical().stop_law(tree), Typical().verify(tree, 3)
    assert verdict == Typical().verify(tree, np.random.default_rng((3, 1)))
    assert (tree.prefix(verdict.node), verdict.accepted) == ((0, 0), 2)
    np.testing.assert_allclose([*law[verdict.node], law.sum()], [*likely, 1.0])
    flat = synthetic("tiny", 3).tree([[0], [1]])
    flat.target[0] = 1 / 3
    assert [Typical(0.4, delta).verify(flat, 0).accepted for delta in (0.9, 1.0)] == [1, 0]  # 0.9 / 3 < 1 / 3


def test_greedy_lenience_takes_drafts_that_are_likely_enough() -> None:
    exact, lenient = (run(TARGET, greedy_lenience(DRAFT, 3, lenience=x), PROMPTS, max_new_tokens=40) for x in (1, 0.3))
    assert exact.new_tokens == [greedy_text(TARGET, prompt.tolist(), 40)[5:] for prompt in PROMPTS]
    assert lenient.metrics.block_efficiency > exact.metrics.block_efficiency
    laws = TARGET(lenient.sequences).logits[:, 4:-1].softmax(-1)
    assert (laws.gather(2, lenient.sequences[:, 5:, None])[..., 0] >= 0.3 * laws.amax(-1)).all()


def test_assisted_generation_of_transformers(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its settings, and with the draft model and the state of torch left as they were."""
    target, draft = pair(40, noise=0.05)
    greedy = target.generate(PROMPTS[:1], max_new_tokens=20, do_sample=False).tolist()
    before, state = draft.generation_config.to_dict(), torch.get_rng_state()
    names = ("num_assistant_tokens", "num_assistant_tokens_schedule", "assistant_confidence_threshold")
    inputs, generate = list[Any](), target.generate

    def noted(*args: Any, **settings: Any) -> Any:
        inputs.append(tuple(getattr(settings["assistant_model"].generation_config, name) for name in names))
        return generate(*args, **settings)

    monkeypatch.setattr(target, "generate", noted)
    for depth, schedule, confidence in ((4, "constant", 0.0), (3, "heuristic", 0.0), (5, "constant", 0.4)):
        more: Any = {"depth": depth, "schedule": schedule, "confidence": confidence}
        found = assisted(target, draft, PROMPTS[:1], max_new_tokens=20, temperature=0, **more)
        assert found.sequences.tolist() == greedy
        assert inputs[-1] == (depth, schedule, confidence)
        assert (found.metrics.tokens, found.metrics.target_calls) == (20, found.metrics.sequence_steps)
        assert 1 < found.metrics.block_efficiency <= depth + 1
        assert min(found.metrics.seconds[phase] for phase in ("prompt", "target", "draft")) > 0
    first, again = (assisted(target, draft, PROMPTS[:1], max_new_tokens=20, seed=1).new_tokens for _ in range(2))
    assert first == again
    assert draft.generation_config.to_dict() == before
    assert (torch.get_rng_state() == state).all()


def test_plain_generate_of_transformers() -> None:
    for settings in ({"temperature": 0}, {"temperature": 0.7, "top_k": 5, "seed": 3}):
        found = plain(TARGET, PROMPTS, max_new_tokens=20, **settings)
        sampling = {"do_sample": True, "temperature": 0.7, "top_k": 5} if "seed" in settings else {"do_sample": False}
        with torch.random.fork_rng():
            torch.manual_seed(3)
            expected = TARGET.generate(PROMPTS, max_new_tokens=20, **sampling)
        assert found.sequences.tolist() == expected.tolist(), settings
        metrics = found.metrics
        assert (metrics.tokens, metrics.target_calls, metrics.sequence_steps) == (40, 20, 40)
        assert (metrics.block_efficiency, metrics.offered) == (1.0, [])
        assert min(metrics.seconds[phase] for phase in ("prompt", "target", "rest")) > 0
        assert metrics.seconds["draft"] == metrics.seconds["verification"] == 0


def test_plain_generate_counts_each_text_to_its_end() -> None:
    texts = [greedy_text(TARGET, prompt, 20)[5:] for prompt in PROMPTS.tolist()]
    eos = texts[0][2]
    ends = [row.index(eos) + 1 if eos in row else 20 for row in texts]
    assert ends[0] < ends[1]
    for inputs in (eos, torch.tensor([eos])):
        found = plain(TARGET, PROMPTS, max_new_tokens=20, temperature=0, eos_token_id=inputs, pad_token_id=0)
        assert found.new_tokens == [row[:end] for row, end in zip(texts, ends, strict=True)]
        assert (found.metrics.tokens, found.metrics.target_calls) == (sum(ends), max(ends))
        assert found.metrics.block_efficiency == 1
