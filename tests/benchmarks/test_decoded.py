"""Rules on the drafted trees of language models."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from benchmarks.path_rules.decoded import measure, tables, trees_of
from otspec.decode.pair.loading import Models
from otspec.paths import Nested
from tests.decode.models import pair

PROMPTS = [[1, 2], [3], [4, 5, 6]]


@pytest.fixture(scope="module")
def models() -> Models:
    target, draft = pair()
    return Models(target, None, draft)


def test_trees_are_those_of_the_models_and_of_full_depth(models: Models) -> None:
    trees = trees_of(models, PROMPTS[0], 2, 3, seed=0, max_new_tokens=8)
    assert trees
    for tree in trees:
        assert (tree.count, tree.length) == (2, 3)
        np.testing.assert_allclose(tree.target.sum(axis=1), 1.0, atol=1e-6)


def test_figures_are_means_over_the_same_trees(models: Models) -> None:
    rules = ["block", "nested", "interval", "naive"]
    records = {
        one["rule"]: one
        for one in measure(models, PROMPTS, 2, 3, rules, temperature=1.0, top_k=None, max_new_tokens=12)
    }
    assert len({one["trees"] for one in records.values()}) == 1
    assert records["interval"]["gain"] == records["interval"]["gain_error"] == 0
    assert records["nested"]["gain"] == pytest.approx(records["nested"]["tokens"] - records["interval"]["tokens"])
    assert records["naive"]["gain"] < 0 < records["naive"]["gain_error"]
    rng = np.random.default_rng(0)
    trees = [tree for at, text in enumerate(PROMPTS) for tree in trees_of(models, text, 2, 3, at, max_new_tokens=12)]
    drawn = [1 + Nested().verify(tree, rng).accepted for tree in trees for _ in range(300)]
    error = 1.5 / np.sqrt(len(drawn))
    assert np.mean(drawn) == pytest.approx(records["nested"]["tokens"], abs=5 * error)
    assert tables(list(records.values()))[1].rows[2][-1] == "-"
