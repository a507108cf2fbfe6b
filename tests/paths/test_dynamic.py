"""Shapes chosen while drafting: lossless by enumeration, and not so where the choice looks at siblings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
import pytest

from otspec import ProblemError
from otspec.paths import (
    Block,
    Confident,
    Context,
    GreedyMultiPath,
    Model,
    Nested,
    PathVerifier,
    PickThenBlock,
    TokenWise,
    Traversal,
    Tree,
    chosen_law,
    synthetic,
    tree_law,
)
from otspec.paths.dynamic import Choice, chosen_along, chosen_reach, chosen_tree
from otspec.paths.enumeration import law_over, trees_of
from otspec.paths.shape import Shape
from otspec.paths.tree import Prefix
from tests.oracles import Floats
from tests.paths.models import FAMILIES, model

VERIFIERS: dict[str, PathVerifier] = {
    "nested": Nested(sigma=0.0),
    "look-ahead": Nested(sigma=0.7, parts=3, grain=0.3),
    "greedy multi-path": GreedyMultiPath(),
    "pick then block": PickThenBlock(),
    "token-wise interval": TokenWise("interval", remember=5000),
    "block": Block(),
    "traversal": Traversal(),
}
EXACT = 1e-12


def _by_hash(prefix: Prefix, laws: Sequence[Floats]) -> tuple[int, ...] | None:
    """A choice without sense: any function of the prefix will do."""
    tails: tuple[tuple[int, ...] | None, ...] = (None, (2, 1), (3,), (1, 2), None, (2,))
    chosen = tails[sum((i + 2) * (token + 1) for i, token in enumerate(prefix)) % len(tails)]
    if chosen is None:
        return None if len(prefix) < 2 else (2,)
    return chosen[: 3 - len(prefix)]


def _by_entropy(prefix: Prefix, laws: Sequence[Floats]) -> tuple[int, ...] | None:
    q = laws[-1][laws[-1] > 0]
    if -(q * np.log(q)).sum() < 0.5 and len(prefix) < 2:
        return None
    return (3,) if len(prefix) == 2 else (2, 1)


def _stop(prefix: Prefix, laws: Sequence[Floats]) -> tuple[int, ...] | None:
    """One path, that ends where its tokens are unlikely together."""
    cumulated = np.prod([law[token] for law, token in zip(laws, prefix, strict=False)])
    if not prefix:
        return None
    return () if cumulated < 0.4 else (1,) if len(prefix) == 2 else None


CHOICES: dict[str, Choice] = {
    "hash": _by_hash,
    "entropy": _by_entropy,
    "stop": _stop,
    "confident": Confident(0.6, 2, 5, 3),
}


@pytest.mark.parametrize("name", VERIFIERS)
@pytest.mark.parametrize("choice", CHOICES)
def test_output_has_the_law_of_the_target_whatever_is_chosen(name: str, choice: str) -> None:
    for family in FAMILIES:
        law = chosen_law(VERIFIERS[name], CHOICES[choice], model(family, 2, 3), 3)
        assert law.deviation <= EXACT, family
        assert law.target.sum() == pytest.approx(1.0, abs=EXACT), family


def _looking(laws: Model, look: Callable[[Tree], bool], exchangeable: bool) -> Iterator[tuple[float, Tree]]:
    """Two tokens, each with three children if what was drawn says so, and otherwise one."""
    for children in (1, 3):
        for chance, tree in trees_of(laws, Shape((2, children)), exchangeable):
            if look(tree) == (children == 3):
                yield chance, tree


def test_a_choice_that_looks_at_siblings_is_not_lossless_for_rules_that_pick() -> None:
    """Equal first tokens get more children: the winner's label is no longer what it is taken for.

    Rules that go on from the siblings that they saw do not mind.
    """
    laws = model("tiny", 2, 0)
    for rule in (Nested(sigma=0.0), PickThenBlock(), TokenWise("interval", remember=5000), Traversal()):
        sound = law_over(_looking(laws, lambda tree: True, rule.exchangeable), rule, laws, 2)
        looks = law_over(_looking(laws, lambda tree: tree.children[0].size == 1, rule.exchangeable), rule, laws, 2)
        assert sound.deviation <= EXACT
        assert looks.target.sum() == pytest.approx(1.0, abs=EXACT)
        if isinstance(rule, Nested | PickThenBlock):
            assert looks.deviation > 0.03, rule
        else:
            assert looks.deviation <= EXACT, rule


def _fixed(prefix: Prefix, laws: Sequence[Floats], branching: tuple[int, ...], stem: int) -> tuple[int, ...] | None:
    """One shape for all, which does not say beforehand how long its stem is."""
    return None if len(prefix) < stem else branching[stem:]


def test_a_choice_that_does_not_look_is_a_shape() -> None:
    laws = model("peaked", 3, 2)
    for branching, stem in (((2, 1), 0), ((1, 2), 1), ((1, 1), 1)):
        chosen = chosen_law(Nested(), partial(_fixed, branching=branching, stem=stem), laws, 2)
        np.testing.assert_allclose(chosen.output, tree_law(Nested(), laws, branching).output, atol=1e-14)


def test_lengths_along_texts_are_those_of_enumeration() -> None:
    laws = synthetic("tiny", 2, 4)
    for rule in (Nested(sigma=0.0), PickThenBlock(), Block()):
        exact = np.zeros(4)
        for prefix, chance in chosen_law(rule, _by_entropy, laws, 3).accepted.items():
            exact[len(prefix)] += chance
        found = np.array([chosen_reach(rule, _by_entropy, Context(laws, seed), 3) for seed in range(300)])
        error = found.std(axis=0) / np.sqrt(300)
        assert (np.abs(found.mean(axis=0) - exact[1:]) <= 4 * error + 1e-9).all(), rule


def test_confident_stems() -> None:
    sure, unsure = np.array([0.95, 0.05]), np.array([0.5, 0.5])
    choice = Confident(0.9, 3, 9)
    assert chosen_along(choice, [0] * 4, np.array([unsure] * 4)) == (3, 1, 1)
    assert chosen_along(choice, [0] * 4, np.array([sure, sure, unsure, unsure])) == (1, 1, 3, 1)
    assert chosen_along(choice, [0] * 9, np.array([sure] * 9)) == (1, 1, 1, 1, 1, 1, 3)
    assert chosen_along(Confident(0.9, 3, 99, 5), [0] * 9, np.array([sure] * 9)) == (1, 1, 1, 1, 3)
    assert chosen_along(Confident(2.0, 2, 8, 16), [0] * 9, np.array([sure] * 9)) == (2, 1, 1, 1)
    for seed in range(10):
        context = Context(synthetic("sharp", 30, seed), seed)
        tree = chosen_tree(choice, context, 9)
        assert tree.shape.slots - 1 <= 9
        assert tree.draft[: tree.length].shape[1] == 30


def test_bad_calls() -> None:
    laws = model("tiny", 2, 1)
    for call, message in (
        (lambda: chosen_law(Nested(), lambda prefix, _: None, laws, 2), "the stem is longer than 1 tokens"),
        (lambda: chosen_law(Nested(), lambda prefix, _: (), laws, 2), "the choice drafts nothing"),
        (lambda: chosen_law(Nested(), lambda prefix, _: (1, 1, 1), laws, 2), "the choice makes 3 levels; at most 2"),
        (lambda: chosen_law(Nested(), 3, laws, 2), "choice is 3; pass a function"),  # type: ignore[arg-type]
        (lambda: chosen_law(3, _by_hash, laws, 3), "the rule is 3; pass a verifier"),  # type: ignore[arg-type]
        (lambda: chosen_law(Nested(), lambda prefix, _: 3, laws, 2), "the choice answers 3; it has to answer None, or"),  # type: ignore[arg-type, return-value]
        (lambda: Confident(-1.0, 2, 8), "least is -1.0"),
        (lambda: Confident(0.5, 0, 8), "paths is 0"),
        (lambda: Confident(0.5, 4, 3), "the budget is 3, and one level of 4 paths takes more"),
        (lambda: chosen_along(lambda prefix, _: None, [0], np.ones((1, 2)) / 2), "the stem is longer than 1 tokens"),
    ):
        with pytest.raises(ProblemError, match=message):
            call()
