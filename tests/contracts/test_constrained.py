"""Texts that keep to a language have its law, whoever drafts, and whether a processor keeps a state or not."""

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from transformers import LogitsProcessorList  # noqa: E402

from otspec.decode.base.processors import Followed, for_trees  # noqa: E402
from tests.contracts.catalogue import CATALOGUE  # noqa: E402
from tests.contracts.draft_models import models  # noqa: E402
from tests.contracts.enumeration import every_draft, law_of_step  # noqa: E402
from tests.contracts.oracles import PROMPT, sampling_of  # noqa: E402

pytestmark = pytest.mark.usefixtures("no_gradients")

NEXT = ({0: 1, 1: 0}, {1: 0})
"""Of each state of an automaton, where its tokens lead."""
STOP = 2
"""Ends a text; allowed in state 1."""


def state_after(new: Any) -> int:
    """Where the automaton is; KeyError where these tokens are not of its language, or end it."""
    state = 0
    for token in new:
        state = NEXT[state][int(token)]
    return state


class Stateless:
    """A processor that goes by the text alone, and fails after texts that are not of the language."""

    def __init__(self, prompt: int) -> None:
        self.prompt = prompt

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        for text, own in zip(input_ids, scores, strict=True):
            state = state_after(text[self.prompt :])
            kept = [*NEXT[state], *([STOP] if state else [])]
            own[[token for token in range(len(own)) if token not in kept]] = -torch.inf
        return scores


class Language:
    """The automaton as a constraint."""

    eos = frozenset({STOP})

    def processor(self, prompt: int, vocab: int) -> Any:
        return Stateless(prompt)

    def allowed(self, new: Any, vocab: int) -> Any:
        try:
            state = state_after(new)
        except KeyError:
            return np.ones(vocab, dtype=bool)
        return np.isin(np.arange(vocab), [*NEXT[state], *([STOP] if state else [])])


class Stepwise:
    """A processor that goes on by the last token of every call, and fails where that is not of the language."""

    def __init__(self) -> None:
        self.states: list[int] = []

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        last = input_ids[:, -1].tolist()
        before = zip(self.states, last, strict=True) if self.states else ()
        self.states = [NEXT[state][token] for state, token in before] or [0] * len(last)
        for state, own in zip(self.states, scores, strict=True):
            kept = [*NEXT[state], *([STOP] if state else [])]
            own[[token for token in range(len(own)) if token not in kept]] = -torch.inf
        return scores


class Followable(Language):
    """The same by a processor that keeps a state."""

    def processor(self, prompt: int, vocab: int) -> Any:
        (found,) = for_trees(LogitsProcessorList([Stepwise()]), torch.tensor([PROMPT]), vocab)
        assert isinstance(found, Followed)
        return found


def deviation(name: str, **given: Any) -> float:
    """Of the law of the text after a step, by the strategy's own rule."""
    of = models(CATALOGUE[name].vocab)
    strategy = CATALOGUE[name].make(of)
    step = every_draft(strategy, of, PROMPT, sampling_of(of, **given))
    return law_of_step(strategy, step, of, PROMPT, given).deviation


BY_TEXT = ("one path", "top_k", "greedy", "redistributed", "steered", "dynamic tree", "prompt lookup", "vanilla")
BY_STATE = (*BY_TEXT, "paths", "without replacement", "several models", "a confident path", "kept", "routed")


@pytest.mark.parametrize("name", BY_TEXT)
def test_a_processor_that_goes_by_the_text_keeps_the_law(name: str) -> None:
    """Drafts do not know of the language, so that the processor would be asked about what is not of it."""
    assert deviation(name, temperature=0.6, constraint=Language()) <= 1e-9


@pytest.mark.parametrize("name", BY_STATE)
def test_a_processor_that_keeps_a_state_keeps_the_law(name: str) -> None:
    """Along every path of a tree it is what it is along a single one."""
    assert deviation(name, temperature=0.6, top_k=2, constraint=Followable()) <= 1e-9
