"""Where drafts end: by their prefix alone, or at a depth that a step chooses before it drafts."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest

from otspec.decode import MultiDraft
from otspec.verification import Block
from tests.contracts.draft_models import models
from tests.contracts.enumeration import every_draft
from tests.contracts.oracles import PROMPT, SETTINGS, after_prompt, law_of_texts, sampling_of
from tests.contracts.playing import Play

pytestmark = pytest.mark.usefixtures("no_gradients")


@pytest.mark.parametrize("name", ["temperature 1", "temperature 0.6", "top-k"])
def test_a_path_ends_where_it_gets_unlikely(name: str) -> None:
    """By the model's own probabilities, whatever the settings; a stem that ends is all of its tree."""
    of, own, confidence = models(3), after_prompt({}, PROMPT).draft, 0.3
    for shape, most in (((1, 1, 1), 3), ((1, 2), 2)):
        strategy = MultiDraft(of.draft, branching=shape, draft_confidence=confidence)
        lengths = set()
        for tree in every_draft(strategy, of, PROMPT, sampling_of(of, **SETTINGS[name])).drafts.trees:
            path = tuple(tree.token[tree.line(tree.size - 1)].tolist())
            sure = np.cumprod([own(path[:at])[token] for at, token in enumerate(path)])[: tree.length]
            goes_on = shape.count(1) if shape[-1] > 1 else most - 1  # levels after which a path may end
            assert (sure[: tree.length - 1][:goes_on] >= confidence).all()
            assert tree.length == most or sure[-1] < confidence
            lengths.add(tree.length)
        assert lengths == set(range(1, most + 1))


def test_nothing_is_read_of_a_path_that_has_ended() -> None:
    of, lengths = models(3), set()
    strategy = MultiDraft(of.draft, paths=1, depth=3, draft_confidence=0.3)
    for seed in range(12):
        play = Play(strategy, of, [PROMPT], {}, seed)
        lengths.add(length := play.draft(3).trees[0].length)
        assert len(play.drafter.passes) == length  # the text, then each token but the last
    assert len(lengths) > 1


VOCAB, LENGTH = 3, 3


def _law_of_texts(looks_ahead: bool) -> np.ndarray:
    """The exact law of texts of `LENGTH` tokens whose steps draft 0, 1 or 2 tokens, by what was accepted before.

    A step that looks ahead drops the second of two drafted tokens where it is unlikely, which it may not.
    """
    law = np.zeros((VOCAB,) * LENGTH)

    def outputs(text: tuple[int, ...], depth: int) -> Counter[tuple[int, ...]]:
        """What a step puts out, with its probability."""
        model, found = after_prompt({}, [*PROMPT, *text]), Counter[tuple[int, ...]]()
        if not depth:
            return Counter({(token,): float(chance) for token, chance in enumerate(model.target(()))})
        for path in itertools.product(range(VOCAB), repeat=depth):
            chances = [model.draft(path[:at])[token] for at, token in enumerate(path)]
            tree = model.tree([path[:1] if looks_ahead and depth == 2 and chances[1] < 0.3 else path])
            stop = Block().stop_law(tree)
            for node, token in np.ndindex(stop.shape):
                found[(*tree.prefix(node), token)] += math.prod(chances) * float(stop[node, token])
        return found

    def go_on(text: tuple[int, ...], depth: int, chance: float) -> None:
        if len(text) >= LENGTH:
            law[text[:LENGTH]] += chance
            return
        for tokens, part in outputs(text, depth).items():
            go_on((*text, *tokens), (depth + len(tokens) + tokens[-1]) % 3, chance * part)

    go_on((), 2, 1.0)
    return law.ravel()


def test_a_depth_that_goes_by_the_past_keeps_the_law() -> None:
    """By enumeration of all that may come up in all steps; and not if a step sees the drafts of its own."""
    target = law_of_texts(after_prompt({}, PROMPT), LENGTH, VOCAB)
    np.testing.assert_allclose(_law_of_texts(looks_ahead=False), target, atol=1e-12)
    assert np.abs(_law_of_texts(looks_ahead=True) - target).sum() > 0.01
