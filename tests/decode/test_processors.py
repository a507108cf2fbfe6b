"""Logits processors of the user's along the paths of drafted trees: those that keep a state, and those that do not."""

import re
from functools import partial
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar

import pytest
import torch
from transformers import LogitsProcessorList

import otspec
from otspec import ProblemError
from otspec.decode import multi_draft
from otspec.decode.base.processors import Followed, for_trees
from tests.decode.models import pair

PROMPTS = torch.tensor([[1, 2, 3], [4, 5, 6]])


def shifted(text: list[int], scores: Any) -> Any:
    """Scores that depend on all of a text: what came is unlikely, and so is what is near the sum."""
    vocab = scores.shape[-1]
    scores[[token % vocab for token in text]] -= 0.7
    scores[sum(text) % vocab] = -torch.inf
    return scores


class ByText:
    """A function of the text."""

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        for text, own in zip(input_ids.tolist(), scores, strict=True):
            shifted(text, own)
        return scores


class ByState:
    """The same by a state that goes on by the last token of every call, and fails if it is not the next one."""

    def __init__(self) -> None:
        self.texts: list[list[int]] = []

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        if self.texts:
            assert input_ids.shape[1] == len(self.texts[0]) + 1
            for text, token in zip(self.texts, input_ids[:, -1].tolist(), strict=True):
                text.append(token)
        else:
            self.texts = input_ids.tolist()
        for text, own in zip(self.texts, scores, strict=True):
            shifted(text, own)
        return scores


class Counting:
    """Knows how often it was asked, and not after what; it shows after some calls only."""

    calls = 0

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        self.calls += 1
        if self.calls > 9:
            scores[:, self.calls % scores.shape[1]] += 3.0
        return scores


def dead_ends(plain: Any, ids: Any, scores: Any) -> Any:
    """Leaves no token but after the beginnings of a text."""
    return scores.masked_fill((ids != plain[:, : ids.shape[1]]).any(), -torch.inf)


@pytest.mark.parametrize("kind", [ByState, Counting])
def test_greedy_text_is_transformers_own(kind: Any) -> None:
    """Which calls a processor once a token; and it is as it was before, so that it serves another run."""
    target, draft = pair(40)
    inputs: dict[str, Any] = {"max_new_tokens": 16, "do_sample": False}
    for prompt in PROMPTS.split(1):
        plain = target.generate(prompt, logits_processor=LogitsProcessorList([kind()]), **inputs)
        processors = LogitsProcessorList([kind(), partial(dead_ends, plain)])
        for method in (multi_draft(draft, depth=4), multi_draft(draft, paths=2, depth=3)):
            drafted = target.generate(prompt, logits_processor=processors, custom_generate=method, **inputs)
            assert torch.equal(plain, drafted)


def test_only_what_a_text_goes_on_from_is_kept() -> None:
    (followed,) = for_trees(LogitsProcessorList([ByState()]), PROMPTS[:1], 40)
    assert isinstance(followed, Followed)
    text, scores = PROMPTS[:1], torch.zeros(1, 40)
    padded = PROMPTS[1:, :2]  # of a batch with a longer prompt
    assert torch.equal(followed.call(0, 0, padded, scores), ByText()(padded, scores.clone()))
    for token in range(9):
        followed.call(0, 0, text, scores)
        for draft in (7, 8):
            followed.call(0, 1, torch.cat((text, torch.tensor([[draft]])), dim=1), scores)
        assert len(followed._after) <= 4
        text = torch.cat((text, torch.tensor([[7 + token % 2]])), dim=1)
    again = followed.call(0, 0, torch.cat((text, torch.tensor([[5, 6]])), dim=1), scores)  # two further on
    assert torch.equal(again, ByText()(torch.cat((text, torch.tensor([[5, 6]])), dim=1), scores.clone()))


class Locked(ByState):
    """Holds what no copy can have."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = Lock()


class Shared:
    """All copies of it count together, after the prompt."""

    calls: ClassVar[list[int]] = []

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        if input_ids.shape[1] > PROMPTS.shape[1]:
            self.calls.append(0)
            scores[:, len(self.calls) % scores.shape[1]] += 1.0
        return scores


Theirs = type("Theirs", (Locked,), {"__module__": "xgrammar.contrib.hf"})
Bare = type("Bare", (ByState,), {"__module__": "outlines", "__deepcopy__": lambda self, _: object.__new__(type(self))})
"""Whose copies lack its state, and fail."""


@pytest.mark.parametrize(
    ("one", "name"),
    [(Locked(), "Locked"), (Shared(), "Shared"), (Theirs(), "Theirs"), (Bare(), "Bare")],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_state_that_cannot_be_copied_is_refused_by_name(one: Any, name: str) -> None:
    target, draft = pair()
    with pytest.raises(
        ProblemError, match=rf"^{name} keeps a state from call to call that copy\.deepcopy does not copy"
    ):
        otspec.generate(target, draft, PROMPTS, logits_processor=[one], max_new_tokens=4)


def test_what_cannot_be_copied_and_keeps_no_state_is_taken() -> None:
    target, draft = pair(40)
    one: Any = ByText()
    one.lock = Lock()
    texts = [
        otspec.generate(target, draft, PROMPTS, logits_processor=[each], max_new_tokens=8, seed=2).new_tokens
        for each in (one, ByText())
    ]
    assert texts[0] == texts[1]


def test_models_are_shared_by_copies() -> None:
    one: Any = ByState()
    one.model = pair(40)[0]
    (followed,) = for_trees(LogitsProcessorList([one]), PROMPTS[:1], 40)
    assert followed._fresh.model is one.model


def test_the_example_of_the_page_runs() -> None:
    page = (Path(__file__).parents[2] / "docs" / "decoding.md").read_text()
    names: dict[str, Any] = {}
    (block,) = (one for one in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "NeverTwice" in one)
    exec(compile(block, "docs/decoding.md", "exec", dont_inherit=True), names)
    assert all(one != two for one, two in pairwise(names["text"].new_tokens[0]))
