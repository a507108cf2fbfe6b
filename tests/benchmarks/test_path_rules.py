"""What the driver of path rules measures, against enumeration, sampling, and its own statements."""

import numpy as np
import pytest

from benchmarks.path_rules.causal_bound import RULES, measure, over_bound
from benchmarks.path_rules.grid import NESTED, Cell, rules_of
from benchmarks.path_rules.lengths import accepted
from benchmarks.path_rules.paths import PUBLISHED, growth, lengths
from otspec.paths import PickRule
from otspec.verification.evaluation.walking import length_along
from tests.each import each


def test_accepted_length_given_the_tree_is_the_mean_over_verdicts() -> None:
    tree = Cell("mixed", 20, 3, 3).tree(0)
    rng = np.random.default_rng(0)
    for name, rule in rules_of(PUBLISHED).items():
        drawn = [rule.verify(tree, rng).accepted for _ in range(300)]
        assert np.mean(drawn) == pytest.approx(accepted(rule, tree), abs=5 * 1.5 / np.sqrt(300)), name


def test_rules_that_pick_a_path_are_measured_along_texts() -> None:
    cell, along = Cell("mixed", 20, 3, 3), {"block", "greedy multi-path"}
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
