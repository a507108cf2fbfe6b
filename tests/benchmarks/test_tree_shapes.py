"""Every rule on every shape, with a couple of small trees."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import tree_shapes
from benchmarks.best_shapes import contexts_of
from benchmarks.tree_shapes import BASELINES, RULES, SHAPES, lengths_of, main, worth
from otspec.paths import Block, Nested, PathVerifier, PickThenBlock, Traversal, synthetic, tree_law
from otspec.verification.trees.shape import Shape


def test_shapes_keep_within_their_budgets() -> None:
    for budget, shapes in SHAPES.items():
        for branching in shapes:
            slots = Shape.of(branching).slots - 1
            assert slots <= budget, branching
            assert slots >= 0.8 * budget or set(branching) == {1}, branching


def test_worth_is_that_of_enumeration() -> None:
    for branching in ((2, 2), (1, 3), (3, 1), (1, 2, 2)):
        for rule in (PickThenBlock(), Nested(sigma=0.0)):
            laws = synthetic("tiny", 2, 5)
            expected = tree_law(rule, laws, branching).mean_accepted
            assert worth(rule, laws, Shape(branching)) == pytest.approx(expected, abs=1e-12), (branching, rule)


def test_traversal_of_one_path_is_block_verification() -> None:
    contexts = contexts_of("mixed", 20, 3)
    found, expected = (lengths_of(rule, contexts, (1, 1, 1)) for rule in (Traversal(), Block()))
    np.testing.assert_allclose(found, expected, atol=1e-12)
    trees = [context.tree((2, 2)) for context in contexts]
    rules: tuple[PathVerifier, ...] = (Traversal(), Block())
    several, first = (np.array([tree.depth @ rule.stop_law(tree).sum(axis=1) for tree in trees]) for rule in rules)
    text = lengths_of(Block(), contexts, (2, 2))
    np.testing.assert_allclose(lengths_of(Traversal(), contexts, (2, 2)), several - first + text, atol=1e-12)


def test_records_and_tables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(tree_shapes.SHAPES, 8, [(1, 2, 1), (2, 2)])
    out = tmp_path / "shapes.jsonl"
    arguments = ["--laws", "mixed", "--vocab", "12", "--budgets", "8", "--trees", "2", "--out", str(out)]
    monkeypatch.setattr(sys, "argv", ["tree_shapes", *arguments])
    main()
    records = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(records) == 2 * len(RULES)
    for record in records:
        assert 0 <= record["accepted"] <= 3 or record["verifier"] == "traversal"  # a difference, of two contexts
        for base in BASELINES:
            assert (record["gains"][base] == [0, 0]) >= (record["verifier"] == base)
        assert np.isfinite(list(record["gains"].values())).all()
    monkeypatch.setattr(tree_shapes, "TWO_LEVELS", ((2, 2),))
    monkeypatch.setattr(sys, "argv", ["tree_shapes", "--two-levels", "--trees", "1"])
    main()
