"""The ratio of accepted length and bound, on small samples."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.causal_bound import RULES, _ratio, main, measure


def test_records_of_all_cells() -> None:
    records = list(measure("mixed", 30, walks=20, texts=60, trees=40, lengths=(2, 3), counts=(1, 2), first=40))
    assert len(records) == 4 * len(RULES)
    for record in json.loads(json.dumps(records)):
        assert 0 < record["accepted"] <= record["length"]
        assert abs(record["ratio"] - record["accepted"] / record["bound"]) < 1e-12
        assert record["ratio"] - 6 * record["ratio_error"] < 1
        assert (record["gain_error"] == 0) == (record["rule"] == "nested" or record["gain"] == 0)


def test_the_error_of_a_ratio_is_the_spread_of_ratios() -> None:
    rng = np.random.default_rng(2)
    found = []
    for _ in range(400):
        texts = 2.0 + rng.standard_normal(200)
        lengths = 0.9 * texts[:80] + 2.0 + 0.5 * rng.standard_normal(80)
        found.append(_ratio(lengths, texts, 3.0 + rng.standard_normal(100)))
    spread = np.std([ratio["ratio"] for ratio in found], ddof=1)
    assert np.mean([ratio["ratio_error"] for ratio in found]) == pytest.approx(spread, rel=0.15)


def test_table(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    out = tmp_path / "bound.jsonl"
    sizes = ["--walks", "5", "--texts", "10", "--trees", "5", "--lengths", "2", "--paths", "2", "--vocab", "20"]
    monkeypatch.setattr(sys, "argv", ["causal_bound", "--laws", "close", *sizes, "--out", str(out)])
    main()
    assert len(out.read_text().splitlines()) == len(RULES)
