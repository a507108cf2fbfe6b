"""How deep rules get, against enumeration, and which shape is drafted for a budget."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
import pytest

from otspec import ProblemError
from otspec.paths import (
    Block,
    Context,
    GreedyMultiPath,
    Measured,
    Model,
    Nested,
    PathVerifier,
    PickThenBlock,
    TokenWise,
    Traversal,
    best_shape,
    measure,
    reach,
    shapes_within,
    synthetic,
    tree_law,
)
from otspec.verification.evaluation.walking import Line, reach_along
from otspec.verification.rules.protocol import PickRule
from otspec.verification.trees.shape import Shape
from tests.oracles import Floats
from tests.verification.models import FAMILIES, model

ALONG: dict[str, PathVerifier] = {
    "block": Block(),
    "pick then block": PickThenBlock(),
    "nested": Nested(sigma=0.0),
    "look-ahead": Nested(sigma=0.7, parts=3, grain=0.3),
    "greedy multi-path": GreedyMultiPath(),
}
SHAPES = ((1, 1, 1), (3, 1), (1, 3), (2, 2), (1, 2, 2), (2, 1, 2))


def _by_depth(rule: PathVerifier, laws: Model, branching: tuple[int, ...]) -> Floats:
    """P(at least d tokens are accepted), by enumeration of all drafts."""
    found = np.zeros(len(branching) + 1)
    for prefix, chance in tree_law(rule, laws, branching).accepted.items():
        found[len(prefix)] += chance
    return found[1:]


def _texts(laws: Model, vocab: int, length: int) -> Iterator[tuple[float, Line]]:
    """All that the target can write, with its probability."""
    for tokens in itertools.product(range(vocab), repeat=length):
        target = np.array([laws.target(tokens[:i]) for i in range(length)])
        draft = np.array([laws.draft(tokens[:i]) for i in range(length)])
        if chance := math.prod(float(p[x]) for p, x in zip(target, tokens, strict=True)):
            yield chance, Line(target, draft, np.array(tokens))


@pytest.mark.parametrize("name", ALONG)
def test_along_texts_of_the_target_rules_get_as_deep_as_over_all_drafts(name: str) -> None:
    rule = ALONG[name]
    assert isinstance(rule, PickRule)
    for number, branching in enumerate(SHAPES):
        for family in (FAMILIES[number % len(FAMILIES)], FAMILIES[(number + 4) % len(FAMILIES)]):
            laws = model(family, 2, 6)
            found = np.zeros(len(branching))
            for chance, text in _texts(laws, 2, len(branching)):
                found += chance * reach_along(rule, text, Shape(branching))
            np.testing.assert_allclose(found, _by_depth(rule, laws, branching), atol=1e-12, err_msg=f"{branching}")


def test_drawn_texts_and_trees_have_the_laws_of_the_models() -> None:
    """Means over seeds, seeds being fixed, against enumeration; 1e-3 for what is too rare to be seen."""
    laws = synthetic("tiny", 3, 2)
    for rule in (Nested(sigma=0.0), Traversal(), TokenWise("interval", remember=5000)):
        for branching in ((1, 2), (2, 1)):
            found = np.array([reach(rule, Context(laws, seed), branching) for seed in range(400)])
            error = found.std(axis=0) / 20
            assert (np.abs(found.mean(axis=0) - _by_depth(rule, laws, branching)) <= 4 * error + 1e-3).all(), branching


def test_slots_draw_the_same_tokens_in_all_shapes() -> None:
    context = Context(synthetic("mixed", 50, 1), 4)
    wide, narrow, stem = (context.tree(branching) for branching in ((3, 2), (2, 1), (1, 4)))
    paths = [wide.prefix(int(node)) for node in wide.node[:, -1]]
    assert [narrow.prefix(int(node)) for node in narrow.node[:, -1]] == [paths[0], paths[2]]
    assert [stem.prefix(int(node)) for node in stem.node[:2, -1]] == paths[:2]
    again = Context(synthetic("mixed", 50, 1), 4)
    assert np.array_equal(again.text(3).tokens, context.text(5).tokens[:3])
    assert not np.array_equal(Context(context.model, 5).text(5).tokens, context.text(5).tokens)


def test_depth_below_does_not_matter() -> None:
    """What one measurement of all depths rests on; of trees, for the rules that are not judged along a text."""
    laws = model("tiny", 2, 8)
    for rule in (Nested(sigma=0.0), PickThenBlock(), Block(), TokenWise("interval", remember=5000), Traversal()):
        whole = _by_depth(rule, laws, (2, 1, 2))
        for depth in (1, 2):
            np.testing.assert_allclose(_by_depth(rule, laws, (2, 1, 2)[:depth]), whole[:depth], atol=1e-12)


def _contexts(regime: str, count: int, vocab: int = 12) -> list[Context]:
    return [Context(synthetic(regime, vocab, seed), seed) for seed in range(count)]


def _all_within(budget: int, deepest: int) -> list[tuple[int, ...]]:
    every = itertools.chain.from_iterable(
        itertools.product(range(1, budget + 1), repeat=depth) for depth in range(1, deepest + 1)
    )
    return [branching for branching in every if Shape(branching).slots - 1 <= budget]


@pytest.mark.parametrize("rule", [Nested(sigma=0.0), TokenWise("interval")], ids=["nested", "token-wise"])
def test_the_best_shape_is_that_of_trying_all(rule: PathVerifier) -> None:
    for regime, level_cost in (("mixed", 0.0), ("far", 0.2), ("sharp", 0.05)):
        contexts = _contexts(regime, 12)
        rates = {one: measure(rule, contexts, one).rate(level_cost) for one in _all_within(6, 4)}
        found = best_shape(rule, contexts, 6, level_cost, deepest=4)
        assert found.rate(level_cost) == pytest.approx(rates[found.branching], abs=1e-12)
        assert found.rate(level_cost) >= 0.99 * max(rates.values()), (regime, found.branching)
        chosen = best_shape(rule, contexts, 6, level_cost, rates, deepest=4)
        assert chosen.rate(level_cost) >= 0.99 * max(rates.values()), (regime, chosen.branching)


def test_known_best_shapes() -> None:
    same = [Context(model("same", 3, seed), seed) for seed in range(4)]
    assert best_shape(Nested(sigma=0.0), same, 7).branching == (1,) * 7  # all is accepted: as deep as it goes
    assert best_shape(Nested(sigma=0.0), same, 40).branching == (1,) * 16
    assert best_shape(Nested(sigma=0.0), same, 40, deepest=3).branching == (1,) * 3
    far = _contexts("far", 8)
    assert best_shape(Nested(sigma=0.0), far, 9, level_cost=100.0).branching == (9,)  # one level is dear enough
    assert best_shape(Block(), far, 9, level_cost=100.0).branching == (1,)  # it looks at one path, and pays for no more


def test_figures_of_a_measurement() -> None:
    measured = Measured((1, 2), np.array([[0.5, 0.1], [0.7, 0.3], [0.9, 0.2]]))
    assert measured.accepted == pytest.approx(0.9)
    assert measured.slots == 3
    assert measured.error == pytest.approx(np.std([0.6, 1.0, 1.1], ddof=1) / math.sqrt(3))
    assert measured.rate(0.25) == pytest.approx(1.9 / 1.5)
    assert measured.cut(1).accepted == pytest.approx(0.7)
    assert math.isnan(Measured((1,), np.array([[0.5]])).error)


def test_shapes_within_a_budget() -> None:
    for budget, deepest in ((1, 16), (7, 16), (16, 4), (64, 8)):
        found = shapes_within(budget, deepest)
        assert len(found) == len(set(found))
        for branching in found:
            assert Shape.of(branching).slots - 1 <= budget, branching
            assert len(branching) <= deepest, branching
    assert {(1,) * 8, (2, 1, 1, 1), (1, 1, 2, 1, 1), (1, 3, 1), (8,), (2, 2)} <= set(shapes_within(8))


def test_bad_calls() -> None:
    contexts, rule = _contexts("mixed", 2), Nested()
    for call, message in (
        (lambda: best_shape(rule, [], 8), "there are no contexts; pass some, 50 or more"),
        (lambda: best_shape(rule, contexts, 0), "budget is 0"),
        (lambda: best_shape(rule, contexts, 8, -1.0), "level_cost is -1.0; it is finite and >= 0"),
        (lambda: best_shape(rule, contexts, 8, math.nan), "level_cost is nan"),
        (
            lambda: best_shape(rule, contexts, 4, branchings=[(2, 2)]),
            r"branching \(2, 2\) drafts 6 tokens on 2 levels; ",
        ),
        (lambda: best_shape(rule, contexts, 4, branchings=[]), "there are no shapes to choose from"),
        (lambda: best_shape(rule, contexts, 4, deepest=0), "deepest is 0"),
        (lambda: reach("nested", contexts[0], (2, 1)), "the rule is 'nested'; pass a verifier such as"),  # type: ignore[arg-type]
        (lambda: reach(rule, contexts[0], ()), r"branching is \(\); pass the number of children"),
        (lambda: Context(contexts[0].model, -1), "seed is -1; pass an integer >= 0"),
        (lambda: Context(3), "the model is 3; pass otspec.paths.Model"),  # type: ignore[arg-type]
    ):
        with pytest.raises(ProblemError, match=message):
            call()
