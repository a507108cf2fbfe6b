"""What the driver of path rules measures, against enumeration, sampling, and its own statements."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.path_rules.best_labels import accepted as accepted_along_classes
from benchmarks.path_rules.best_labels import most as most_of_labels
from benchmarks.path_rules.best_shapes import candidates, choose, redrawn
from benchmarks.path_rules.causal_bound import RULES, measure, over_bound
from benchmarks.path_rules.grid import NESTED, TOKEN_WISE, Cell, contexts_of, in_short, rules_of
from benchmarks.path_rules.lengths import accepted, lengths_of
from benchmarks.path_rules.paths import OF_2026, PUBLISHED, growth, lengths
from benchmarks.path_rules.shapes import BASELINES, OF_BUDGET
from benchmarks.path_rules.shapes import measure as measure_shapes
from benchmarks.path_rules.two_levels import mean_length
from otspec.paths import Block, Nested, PathVerifier, PickRule, PickThenBlock, TokenWise, Traversal, synthetic, tree_law
from otspec.paths import measure as measure_contexts
from otspec.verification.evaluation.walking import length_along
from otspec.verification.trees.shape import Shape
from tests.each import each

EVERY = tuple(dict.fromkeys((*PUBLISHED, *OF_2026)))


def test_accepted_length_given_the_tree_is_the_mean_over_verdicts() -> None:
    tree = Cell("mixed", 20, 3, 3).tree(0)
    rng = np.random.default_rng(0)
    for name, rule in rules_of(EVERY).items():
        drawn = [rule.verify(tree, rng).accepted for _ in range(300)]
        assert np.mean(drawn) == pytest.approx(accepted(rule, tree), abs=5 * 1.5 / np.sqrt(300)), name


def test_rules_that_pick_a_path_are_measured_along_texts() -> None:
    cell, along = Cell("mixed", 20, 3, 3), {"block", "greedy multi-path", "pick then block"}
    tree, lines = cell.tree(0), cell.lines(0, 2)
    for name, rule in rules_of(PUBLISHED).items():
        assert isinstance(rule, PickRule) == (name in along or name.startswith("nested")), name
        walks = isinstance(rule, PickRule)
        expected = [length_along(rule, line, tree.shape) for line in lines] if walks else [accepted(rule, tree)]  # type: ignore[arg-type]
        assert accepted(rule, tree, lines) == pytest.approx(np.mean(expected), abs=1e-15), name


@each(walks=(0, 2))
def test_gains_are_over_the_rule_that_was_named(walks: int) -> None:
    records = {one["verifier"]: one for one in lengths(Cell("mixed", 30, 3, 2), 3, walks, ("block", NESTED), NESTED)}
    for record in records.values():
        assert 0 <= record["accepted"] <= record["length"]
        assert record["gains"][NESTED][0] == pytest.approx(record["accepted"] - records[NESTED]["accepted"])
        assert record["ms"] > 0
    assert records[NESTED]["gains"] == {NESTED: [0, 0]}


def test_growth_follows_one_axis_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.path_rules.paths.GROWTH", {"V": [(10, 2, 2), (20, 2, 2)]})
    assert {(record["axis"], record["vocab"]) for record in growth(1)} == {("V", 10), ("V", 20)}


def test_shapes_in_short() -> None:
    for branching, short in (
        ((1, 1, 4, 1, 1, 1), "1, 1, 4, 1 x 3"),
        ((2, 2), "2, 2"),
        ((1,) * 8, "1 x 8"),
        ((7,), "7"),
    ):
        assert in_short(branching) == short


def test_shapes_keep_within_their_budgets() -> None:
    for budget, shapes in OF_BUDGET.items():
        for branching in shapes:
            slots = Shape.of(branching).slots - 1
            assert slots <= budget, branching
            assert slots >= 0.8 * budget or set(branching) == {1}, branching


def test_every_rule_meets_every_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(OF_BUDGET, 8, [(1, 2, 1), (2, 2)])
    records = list(measure_shapes("mixed", 12, 8, 2, PUBLISHED))
    assert len(records) == 2 * len(PUBLISHED)
    for record in records:
        assert 0 <= record["accepted"] <= 3 or record["verifier"] == "traversal"  # a difference, of two contexts
        for base in BASELINES:
            assert (record["gains"][base] == [0, 0]) >= (record["verifier"] == base)
        assert np.isfinite(list(record["gains"].values())).all()


def test_mean_lengths_are_those_of_enumeration() -> None:
    for branching in ((2, 2), (1, 3), (3, 1), (1, 2, 2)):
        for rule in (PickThenBlock(), Nested(sigma=0.0)):
            laws = synthetic("tiny", 2, 5)
            expected = tree_law(rule, laws, branching).mean_accepted
            assert mean_length(rule, laws, Shape(branching)) == pytest.approx(expected, abs=1e-12), (branching, rule)


def test_traversal_of_one_path_is_block_verification() -> None:
    contexts = contexts_of("mixed", 20, 3)
    found, expected = (lengths_of(rule, contexts, (1, 1, 1)) for rule in (Traversal(), Block()))
    np.testing.assert_allclose(found, expected, atol=1e-12)
    trees = [context.tree((2, 2)) for context in contexts]
    rules: tuple[PathVerifier, ...] = (Traversal(), Block())
    several, first = (np.array([accepted(rule, tree) for tree in trees]) for rule in rules)
    text = lengths_of(Block(), contexts, (2, 2))
    np.testing.assert_allclose(lengths_of(Traversal(), contexts, (2, 2)), several - first + text, atol=1e-12)


def test_traversal_is_judged_on_several_trees_of_a_context() -> None:
    contexts = contexts_of("mixed", 10, 3, 5)
    assert redrawn(contexts, Nested())[0].seed == contexts[0].seed == 5
    several = redrawn(contexts, Traversal())
    assert len(several) == 2 * len(contexts)
    assert several[0].model is several[1].model
    found = measure_contexts(Traversal(), several, (2, 1, 1)).lengths
    assert not np.array_equal(found[::2], found[1::2])
    assert contexts_of("llama3", 50, 1)[0].text(2).target.shape == (2, 50)


def test_fewer_shapes_are_tried_where_trees_have_to_be_drafted() -> None:
    for budget in (8, 32):
        few, all_ = candidates(TokenWise("interval"), budget), candidates(Nested(), budget)
        assert set(few) < set(all_)
        assert (1,) * 8 in few
        assert (2, 1, 1, 1) in candidates(Block(), 8)
        assert all(Shape(one).slots - 1 <= budget for one in all_)


def test_the_best_shape_is_judged_by_its_rate() -> None:
    records = list(choose("mixed", 12, (4, 6), 0.05, 4, (TOKEN_WISE, "block", NESTED)))
    assert [(one["budget"], one["verifier"]) for one in records] == [
        (budget, name) for budget in (4, 6) for name in (TOKEN_WISE, "block", NESTED)
    ]
    for record in records:
        assert record["slots"] == Shape.of(record["branching"]).slots - 1 <= record["budget"]
        assert 0 <= record["accepted"] <= len(record["branching"])
        assert record["rate"] == pytest.approx((1 + record["accepted"]) / (1 + 0.05 * len(record["branching"])))
        gain, _ = record["gains"][TOKEN_WISE]
        assert (gain == 0) == (record["verifier"] == TOKEN_WISE) or record["branching"] == [1] * 4


def test_accepted_lengths_over_the_bound() -> None:
    records = list(measure("mixed", 30, walks=20, texts=60, trees=40, lengths=(2, 3), counts=(1, 2), first=40))
    assert len(records) == 4 * len(RULES)
    for record in records:
        assert 0 < record["accepted"] <= record["length"]
        assert abs(record["ratio"] - record["accepted"] / record["bound"]) < 1e-12
        assert record["ratio"] - 6 * record["ratio_error"] < 1
        gain, error = record["gains"][NESTED]
        assert (error == 0) == (record["verifier"] == NESTED or gain == 0)


def test_the_error_of_a_ratio_is_the_spread_of_ratios() -> None:
    rng = np.random.default_rng(2)
    found = []
    for _ in range(400):
        texts = 2.0 + rng.standard_normal(200)
        walked = 0.9 * texts[:80] + 2.0 + 0.5 * rng.standard_normal(80)
        found.append(over_bound(walked, texts, 3.0 + rng.standard_normal(100)))
    spread = np.std([ratio["ratio"] for ratio in found], ddof=1)
    assert np.mean([ratio["ratio_error"] for ratio in found]) == pytest.approx(spread, rel=0.15)


def test_the_best_labels_are_those_of_one_path_and_of_one_token_and_above_those_that_are_nested() -> None:
    mass, ratio = np.array([0.5, 0.3, 0.2]), np.array([0.4, 1.2, 2.2])
    one = accepted_along_classes(Block(), mass, ratio, 3, 1)
    assert most_of_labels(mass, ratio, 3, 1) == pytest.approx(one, abs=1e-7)
    sets = [mass[kept:].sum() for kept in range(4)]
    optimum = min(1 - (1 - q) ** 2 + 1 - (mass * ratio)[kept:].sum() for kept, q in enumerate(sets))
    assert most_of_labels(mass, ratio, 1, 2, steps=60) == pytest.approx(optimum, abs=1e-3)
    nested = accepted_along_classes(Nested(), mass, ratio, 3, 2)
    assert 0.97 * most_of_labels(mass, ratio, 3, 2) < nested <= most_of_labels(mass, ratio, 3, 2, steps=60) + 1e-3
