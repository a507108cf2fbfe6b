"""The methods to compare with: lossless ones by enumeration or greedy equality, all of them measured alike."""

from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from transformers import LogitsProcessorList

from otspec import ProblemError
from otspec.decode import run
from otspec.decode.base.sampling import Sampling
from otspec.decode.drafters.model import ModelDrafter
from otspec.decode.methods import PromptLookup, Typical, Vanilla, assisted, assisted_lookup, plain
from otspec.decode.methods.multi_draft import MultiDraft
from otspec.decode.models.context import vocabulary
from otspec.paths import Block, Nested, TokenWise, Tree, synthetic
from tests.decode.models import pair

PROMPTS = torch.tensor([[1, 2, 3, 1, 2], [4, 5, 6, 4, 5]])


@pytest.mark.parametrize(
    ("device", "settings", "branching", "rule"),
    [
        ("cpu", {}, (1, 1, 1), Block),
        ("cpu", {"paths": 2}, (2, 1, 1), Nested),
        ("cpu", {"depth": 5}, (1,) * 5, Block),
        ("cpu", {"law": "hub_pairs"}, (2, 1, 1), TokenWise),
        ("cpu", {"law": "top_k"}, (4, 1, 1), TokenWise),
        ("meta", {}, (1, 1, 1), Block),
        ("meta", {"paths": 4}, (4, 1, 1), Nested),
    ],
)
def test_what_is_drafted_where_nothing_is_said(
    device: str, settings: dict[str, Any], branching: tuple[int, ...], rule: type
) -> None:
    draft = pair(40)[1]
    generator: Any = _OnDevice(torch.device(device))
    prepared = MultiDraft(draft, **settings).prepare(
        vocabulary(draft), Sampling(LogitsProcessorList(), True), generator
    )
    assert isinstance(prepared.drafter, ModelDrafter)
    assert prepared.drafter.shape.branching == branching
    assert type(prepared.verifier) is rule


class _OnDevice(NamedTuple):
    """What tells the device in place of a generator: there is none but of the CPU here."""

    device: Any


def test_vanilla_is_one_token_a_call() -> None:
    metrics = run(pair(40)[0], Vanilla(), PROMPTS, max_new_tokens=7, seed=0).metrics
    assert (metrics.block_efficiency, metrics.target_calls, metrics.offered, metrics.drafted_nodes) == (1.0, 7, [], 0)


def test_prompt_lookup_pays_where_the_text_repeats_itself() -> None:
    target = pair(40)[0]
    prompt = target.generate(PROMPTS[:1], max_new_tokens=20, do_sample=False)
    repeated = torch.cat((prompt, PROMPTS[:1]), dim=1)
    generation = run(target, PromptLookup(4), repeated, max_new_tokens=20, temperature=0)
    assert generation.sequences.tolist() == target.generate(repeated, max_new_tokens=20, do_sample=False).tolist()
    assert generation.metrics.offered[0] > 0


def test_typical_acceptance_takes_the_longest_likely_path() -> None:
    likely = np.array([0.9, 0.05, 0.05])
    tree = Tree.of([[1, 0], [0, 2], [0, 0]], lambda prefix: likely, lambda prefix: np.full(3, 1 / 3))
    law = Typical().stop_law(tree)
    verdict = Typical().verify(tree, np.random.default_rng(0))
    assert Typical().verify(tree, 3) == Typical().verify(tree, np.random.default_rng((3, 1)))
    assert (tree.prefix(verdict.node), verdict.accepted) == ((0, 0), 2)
    np.testing.assert_allclose(law[verdict.node], likely)
    assert law.sum() == pytest.approx(1.0)


def test_typical_acceptance_asks_less_of_flat_laws() -> None:
    flat = synthetic("tiny", 3).tree([[0], [1]])
    flat.target[0] = 1 / 3
    assert Typical(epsilon=0.4, delta=0.9).verify(flat, np.random.default_rng(0)).accepted == 1  # 0.9 / 3 < 1 / 3
    assert Typical(epsilon=0.4, delta=1.0).verify(flat, np.random.default_rng(0)).accepted == 0
    with pytest.raises(ProblemError, match=r"epsilon is 0; it is in \(0, 1\]"):
        Typical(epsilon=0)


def test_assisted_generation_of_transformers() -> None:
    target, draft = pair(40, noise=0.05)
    before = draft.generation_config.to_dict()
    generation = assisted(target, draft, PROMPTS[:1], depth=4, max_new_tokens=20, temperature=0)
    assert generation.sequences.tolist() == target.generate(PROMPTS[:1], max_new_tokens=20, do_sample=False).tolist()
    metrics = generation.metrics
    assert (metrics.tokens, metrics.target_calls) == (20, metrics.sequence_steps)
    assert 1 < metrics.block_efficiency <= 5
    assert min(metrics.seconds[phase] for phase in ("prompt", "target", "draft")) > 0
    assert draft.generation_config.to_dict() == before
    state = torch.get_rng_state()
    first, again = (assisted(target, draft, PROMPTS[:1], max_new_tokens=20, seed=1).new_tokens for _ in range(2))
    assert first == again
    assert (torch.get_rng_state() == state).all()


def test_settings_of_assisted_generation_are_those_of_transformers(monkeypatch: pytest.MonkeyPatch) -> None:
    target, draft = pair(40, noise=0.05)
    greedy = target.generate(PROMPTS[:1], max_new_tokens=20, do_sample=False).tolist()
    given: list[Any] = []
    names = ("num_assistant_tokens", "num_assistant_tokens_schedule", "assistant_confidence_threshold")
    generate = target.generate

    def noted(*args: Any, **settings: Any) -> Any:
        given.append(tuple(getattr(settings["assistant_model"].generation_config, name) for name in names))
        return generate(*args, **settings)

    monkeypatch.setattr(target, "generate", noted)
    for settings in ((3, "heuristic", 0.0), (5, "constant", 0.4)):
        depth, schedule, confidence = settings
        more: Any = {"depth": depth, "schedule": schedule, "confidence": confidence}
        assert (
            assisted(target, draft, PROMPTS[:1], max_new_tokens=20, temperature=0, **more).sequences.tolist() == greedy
        )
        assert given[-1] == settings
    for wrong, message in (
        ({"schedule": "magic"}, "no schedule 'magic'; known: constant, heuristic"),
        ({"confidence": 2}, r"confidence is 2; it is a probability in \[0, 1\]"),
        ({"depth": 0}, "depth is 0; pass an integer >= 1"),
    ):
        with pytest.raises(ProblemError, match=message):
            assisted(target, draft, PROMPTS[:1], **wrong)


def test_plain_generate_of_transformers() -> None:
    target = pair(40)[0]
    for settings in ({"temperature": 0}, {"temperature": 0.7, "top_k": 5, "seed": 3}):
        generation = plain(target, PROMPTS, max_new_tokens=20, **settings)
        with torch.random.fork_rng():
            torch.manual_seed(3)
            sampling = (
                {"do_sample": True, "temperature": 0.7, "top_k": 5} if "seed" in settings else {"do_sample": False}
            )
            expected = target.generate(PROMPTS, max_new_tokens=20, **sampling)
        assert generation.sequences.tolist() == expected.tolist(), settings
        metrics = generation.metrics
        assert (metrics.tokens, metrics.target_calls, metrics.sequence_steps) == (40, 20, 40)
        assert (metrics.block_efficiency, metrics.offered) == (1.0, [])
        assert min(metrics.seconds[phase] for phase in ("prompt", "target", "rest")) > 0
        assert metrics.seconds["draft"] == metrics.seconds["verification"] == 0


def test_plain_generate_counts_each_text_to_its_end() -> None:
    target = pair(40)[0]
    texts = [row[5:] for row in target.generate(PROMPTS, max_new_tokens=20, do_sample=False).tolist()]
    eos = texts[0][2]
    ends = [row.index(eos) + 1 if eos in row else 20 for row in texts]
    assert ends[0] < ends[1]
    for given in (eos, [eos], torch.tensor([eos])):
        generation = plain(target, PROMPTS, max_new_tokens=20, temperature=0, eos_token_id=given, pad_token_id=0)
        assert generation.new_tokens == [row[:end] for row, end in zip(texts, ends, strict=True)]
        assert (generation.metrics.tokens, generation.metrics.target_calls) == (sum(ends), max(ends))
        assert generation.metrics.block_efficiency == 1
    with pytest.raises(ProblemError, match=r"stop_strings and 2 prompts: .* pass one prompt at a time"):
        plain(target, PROMPTS, max_new_tokens=20, stop_strings=["a"], tokenizer=object())


def test_prompt_lookup_of_transformers() -> None:
    target = pair(40, seed=1)[0]  # whose greedy text repeats itself
    generation = assisted_lookup(target, PROMPTS[:1], depth=4, max_new_tokens=40, temperature=0)
    plain_text = target.generate(PROMPTS[:1], max_new_tokens=40, do_sample=False)
    assert generation.sequences.tolist() == plain_text.tolist()
    assert 1.4 < generation.metrics.block_efficiency <= 5
    with pytest.raises(ProblemError, match="ngram is 0; pass an integer >= 1"):
        assisted_lookup(target, PROMPTS[:1], ngram=0)
