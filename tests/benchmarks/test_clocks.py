from __future__ import annotations

import pytest

from benchmarks.clocks import jointly, measure
from otspec.paths import synthetic
from otspec.schemes import Systematic


def test_trees_say_their_branching() -> None:
    trees = list(jointly(synthetic("tiny", 3, 1), Systematic))
    assert sum(chance for chance, _ in trees) == pytest.approx(1.0, abs=1e-12)
    assert {tree.shape.branching for _, tree in trees} == {(2, 2)}


def test_clocks_come_close_to_the_rules_they_meet() -> None:
    found = list(measure(1))
    assert [other for _, other, _ in found] == ["PickByPlan", "PickByPlan", "nested, sigma = 0"]
    for case, _, lengths in found:
        assert 0.9 < lengths[0, 0] / lengths[0, 1] < 1.05, case
