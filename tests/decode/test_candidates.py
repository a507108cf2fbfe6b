"""transformers' candidate generators as drafters: the laws that are verified are those that tokens were drawn from."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from transformers import TemperatureLogitsWarper, TopKLogitsWarper  # noqa: E402

from otspec import ProblemError  # noqa: E402
from otspec.decode import run  # noqa: E402
from otspec.decode.drafters.candidates import CandidateDrafter  # noqa: E402
from otspec.decode.methods import Candidates  # noqa: E402
from otspec.decode.methods.prompt_lookup import PromptLookup  # noqa: E402
from tests.contracts.draft_models import assistant, early_exit, models, their_lookup  # noqa: E402
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


@pytest.mark.parametrize("name", PROCESSORS)
def test_an_assistant_that_samples_tells_its_law(name: str) -> None:
    processors, settings = PROCESSORS[name]
    draft, runs, seen = pair(5)[1], 80, Counter[int]()
    drafter = CandidateDrafter(assistant(models(5), True, processors), 3, 5, torch.Generator().manual_seed(3))
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
    [their_lookup, assistant(models(40), False), early_exit(models(40))],
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
    drafter = CandidateDrafter(assistant(models(40), False), 3, 40, torch.Generator())
    drafter.start([text])
    for accepted in (0, 2, 3, 1, 3, 0):
        expected = greedy_text(draft, text, 3)
        assert drafter.draft([text], 3).trees[0].token[1:].tolist() == expected[len(text) :]
        text = [*expected[: len(text) + accepted], 7]
        drafter.commit([list(range(1, accepted + 1))], [0])


def test_tokens_without_a_law_are_fixed_drafts() -> None:
    for make in (their_lookup, assistant(models(40), False)):
        drafter = CandidateDrafter(make, 2, 40, torch.Generator())
        drafter.start([PROMPT])
        drafts = drafter.draft([PROMPT], 2)
        assert not len(drafts.laws)
        assert drafts.trees[0].length == 2  # as many as are asked for, though it has more


def test_their_lookup_gives_the_text_of_ours() -> None:
    target, prompt = pair(40)[0], torch.tensor([PROMPT * 3])
    ours, theirs = (
        run(target, method, prompt, max_new_tokens=20, temperature=0)
        for method in (PromptLookup(3, 2), Candidates(their_lookup, 3))
    )
    assert ours.sequences.tolist() == theirs.sequences.tolist()


def test_one_text_at_a_time() -> None:
    with pytest.raises(ProblemError, match="one text at a time; there are 2 prompts"):
        run(pair(40)[0], Candidates(their_lookup), torch.tensor([PROMPT, PROMPT]), max_new_tokens=4)
    with pytest.raises(ProblemError, match="depth is 0"):
        Candidates(their_lookup, 0)
