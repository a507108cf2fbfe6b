"""transformers' candidate generators as drafters: the laws that are verified are those that tokens were drawn from."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from transformers import GenerationConfig, LogitsProcessorList, TemperatureLogitsWarper, TopKLogitsWarper  # noqa: E402
from transformers.generation.candidate_generator import (  # noqa: E402
    AssistedCandidateGenerator,
    CandidateGenerator,
    EarlyExitCandidateGenerator,
    PromptLookupCandidateGenerator,
)

from otspec import ProblemError  # noqa: E402
from otspec.decode import run  # noqa: E402
from otspec.decode.drafters.candidates import CandidateDrafter  # noqa: E402
from otspec.decode.methods import Candidates  # noqa: E402
from otspec.decode.methods.prompt_lookup import PromptLookup  # noqa: E402
from tests.decode.models import greedy_text, law_after, pair  # noqa: E402

PROMPT = [1, 2, 3, 1, 2]
PROCESSORS: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "temperature 1": ([], {}),
    "temperature 0.6": ([TemperatureLogitsWarper(0.6)], {"temperature": 0.6}),
    "top-k": ([TopKLogitsWarper(3)], {"top_k": 3}),
}


@pytest.fixture(autouse=True)
def _no_gradients() -> Any:
    with torch.no_grad():
        yield


def _assistant(
    vocab: int, do_sample: bool, processors: list[Any] | None = None, tokens: int = 3, kind: Any = None, **more: Any
) -> Callable[[Any], CandidateGenerator]:
    """An assistant of constant length that never ends a draft by itself; early exit is from the target."""
    target, draft = pair(vocab)
    model = copy.deepcopy(target) if kind is EarlyExitCandidateGenerator else draft
    model.generation_config.update(
        num_assistant_tokens=tokens, num_assistant_tokens_schedule="constant", assistant_confidence_threshold=0.0
    )
    config = GenerationConfig(do_sample=do_sample, max_length=64, min_length=0, top_k=0, **more)

    def make(ids: Any) -> CandidateGenerator:
        made: CandidateGenerator = (kind or AssistedCandidateGenerator)(
            ids, model, config, {}, logits_processor=LogitsProcessorList(processors or [])
        )
        return made

    return make


def _lookup(ids: Any) -> CandidateGenerator:
    return PromptLookupCandidateGenerator(num_output_tokens=3, max_matching_ngram_size=2, max_length=64)


@pytest.mark.parametrize("name", PROCESSORS)
def test_an_assistant_that_samples_tells_its_law(name: str) -> None:
    processors, settings = PROCESSORS[name]
    draft, runs, seen = pair(5)[1], 80, Counter[int]()
    drafter = CandidateDrafter(_assistant(5, True, processors), 3, 5, torch.Generator().manual_seed(3))
    for number in range(runs):
        drafter.start([PROMPT])
        drafts = drafter.draft([PROMPT], 3)
        [tree] = drafts.trees
        tokens = tree.token[1:].tolist()
        assert len(tokens) == len(drafts.laws) == 3
        seen[tokens[0]] += 1
        if number < 5:
            own = [law_after(draft, [*PROMPT, *tokens[:i]], **settings) for i in range(3)]
            np.testing.assert_allclose(drafts.laws, own, atol=1e-6)
    law = law_after(draft, PROMPT, **settings)
    possible = law > 0
    assert sum(seen[int(token)] for token in np.flatnonzero(possible)) == runs
    assert chisquare([seen[int(token)] for token in np.flatnonzero(possible)], law[possible] * runs).pvalue > 1e-3


@pytest.mark.parametrize(
    "make",
    [_lookup, _assistant(40, False), _assistant(40, False, kind=EarlyExitCandidateGenerator, assistant_early_exit=1)],
    ids=["lookup", "assistant", "early exit"],
)
def test_greedy_decoding(make: Any) -> None:
    target, prompt = pair(40)[0], torch.tensor([PROMPT])
    plain = target.generate(prompt, max_new_tokens=20, do_sample=False).tolist()
    generation = run(target, Candidates(make, 4), prompt, max_new_tokens=20, temperature=0)
    assert generation.sequences.tolist() == plain
    assert generation.metrics.offered[0] > 0


def test_an_assistant_follows_the_text() -> None:
    """Its cache holds what was drafted, of which any part became text."""
    draft, text = pair(40)[1], list(PROMPT)
    drafter = CandidateDrafter(_assistant(40, False), 3, 40, torch.Generator())
    drafter.start([text])
    for accepted in (0, 2, 3, 1, 3, 0):
        expected = greedy_text(draft, text, 3)
        assert drafter.draft([text], 3).trees[0].token[1:].tolist() == expected[len(text) :]
        text = [*expected[: len(text) + accepted], 7]
        drafter.commit([list(range(1, accepted + 1))], [0])


def test_tokens_without_a_law_are_fixed_drafts() -> None:
    for make in (_lookup, _assistant(40, False)):
        drafter = CandidateDrafter(make, 2, 40, torch.Generator())
        drafter.start([PROMPT])
        drafts = drafter.draft([PROMPT], 2)
        assert not len(drafts.laws)
        assert drafts.trees[0].length == 2  # as many as are asked for, though it has more


def test_their_lookup_gives_the_text_of_ours() -> None:
    target, prompt = pair(40)[0], torch.tensor([PROMPT * 3])
    ours, theirs = (
        run(target, method, prompt, max_new_tokens=20, temperature=0)
        for method in (PromptLookup(3, 2), Candidates(_lookup, 3))
    )
    assert ours.sequences.tolist() == theirs.sequences.tolist()


def test_one_text_at_a_time() -> None:
    with pytest.raises(ProblemError, match="one text at a time; there are 2 prompts"):
        run(pair(40)[0], Candidates(_lookup), torch.tensor([PROMPT, PROMPT]), max_new_tokens=4)
    with pytest.raises(ProblemError, match="depth is 0"):
        Candidates(_lookup, 0)
