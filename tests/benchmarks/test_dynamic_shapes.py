"""Shapes chosen for each context, on a few small ones."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.best_shapes import contexts_of
from benchmarks.dynamic_shapes import by_entropy, entropy, lengths, main, one_shape
from otspec.paths import Nested, measure


def test_entropy_decides() -> None:
    assert entropy(np.array([0.25, 0.75, 0.0])) == pytest.approx(0.75 * math.log(4 / 3) + 0.25 * math.log(4))
    choice = by_entropy(0.6, (2, 1), (3,))
    assert choice((), [np.array([0.1, 0.9])]) == (2, 1)
    assert choice((), [np.array([0.5, 0.5])]) == (3,)


def test_one_shape_is_worth_what_is_measured_of_it() -> None:
    contexts = contexts_of("mixed", 20, 4)
    expected = measure(Nested(), contexts, (2, 1, 1)).lengths
    np.testing.assert_allclose(lengths(one_shape((2, 1, 1)), contexts), expected, atol=1e-12)


def test_records_and_table(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    out = tmp_path / "dynamic.jsonl"
    arguments = ["--laws", "sharp", "--vocab", "12", "--budgets", "8", "--contexts", "4", "--out", str(out)]
    monkeypatch.setattr(sys, "argv", ["dynamic_shapes", *arguments])
    main()
    records = [json.loads(line) for line in out.read_text().splitlines()]
    assert [one["way"] for one in records] == ["one", "entropy", "confident"]
    assert records[0]["gain"] == 0
    for one in records:
        assert 0 < one["nodes"] <= one["slots"] <= 8
        assert 0 < one["accepted"] <= 12
