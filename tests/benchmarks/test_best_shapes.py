"""The best shape of every rule, with a few small contexts."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.best_shapes import BASELINE, RULES, candidates, contexts_of, main, redrawn, spelled
from otspec.paths import Block, Nested, TokenWise, Traversal, measure
from otspec.verification.trees.shape import Shape


def test_shapes_in_short() -> None:
    for branching, short in (
        ((1, 1, 4, 1, 1, 1), "1, 1, 4, 1 x 3"),
        ((2, 2), "2, 2"),
        ((1,) * 8, "1 x 8"),
        ((7,), "7"),
    ):
        assert spelled(branching) == short


def test_fewer_shapes_are_tried_where_trees_have_to_be_drafted() -> None:
    for budget in (8, 32):
        few, all_ = candidates(TokenWise("interval"), budget), candidates(Nested(), budget)
        assert set(few) < set(all_)
        assert (1,) * 8 in few
        assert (2, 1, 1, 1) in candidates(Block(), 8)
        assert all(Shape(one).slots - 1 <= budget for one in all_)


def test_traversal_is_judged_on_several_trees_of_a_context() -> None:
    contexts = contexts_of("mixed", 10, 3, 5)
    assert redrawn(contexts, Nested())[0].seed == contexts[0].seed == 5
    several = redrawn(contexts, Traversal())
    assert len(several) == 2 * len(contexts)
    assert several[0].model is several[1].model
    lengths = measure(Traversal(), several, (2, 1, 1)).lengths
    assert not np.array_equal(lengths[::2], lengths[1::2])
    assert contexts_of("llama3", 50, 1)[0].text(2).target.shape == (2, 50)


def test_records_table_and_picture(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("vl_convert")
    out, picture = tmp_path / "best.jsonl", tmp_path / "best.png"
    arguments = ["--laws", "mixed,far", "--vocab", "12", "--budgets", "4,6", "--contexts", "4", "--out", str(out)]
    monkeypatch.setattr(sys, "argv", ["best_shapes", *arguments])
    main()
    records = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(records) == 2 * 2 * len(RULES)
    for record in records:
        assert record["slots"] == Shape.of(record["branching"]).slots - 1 <= record["budget"]
        assert 0 <= record["accepted"] <= len(record["branching"])
        assert record["rate"] == pytest.approx((1 + record["accepted"]) / (1 + 0.05 * len(record["branching"])))
        assert (record["gain"] == 0) == (record["verifier"] == BASELINE) or record["branching"] == [1] * 4
    monkeypatch.setattr(sys, "argv", ["best_shapes", "--out", str(out), "--plot", str(picture)])
    main()
    assert picture.stat().st_size > 10_000
