from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.paths import Cell, accepted, growth, measure, plot, verifiers
from benchmarks.paths_picture import owners
from otspec.extras import installed
from otspec.verification.evaluation.walking import length_along


def test_cells_are_read_or_refused() -> None:
    assert Cell.parse("mixed:50:4:2") == Cell("mixed", 50, 4, 2)
    for wrong in ("calm:50:4:2", "mixed:50:4"):
        with pytest.raises(SystemExit, match="is no cell"):
            Cell.parse(wrong)


def test_accepted_length_given_the_tree_is_the_mean_over_verdicts() -> None:
    tree = Cell("mixed", 20, 3, 3).tree(0)
    rng = np.random.default_rng(0)
    for name, rule in verifiers().items():
        drawn = [rule.verify(tree, rng).accepted for _ in range(300)]
        assert np.mean(drawn) == pytest.approx(accepted(rule, tree), abs=5 * 1.5 / np.sqrt(300)), name


def test_rules_that_pick_a_path_are_measured_along_texts() -> None:
    cell, along = Cell("mixed", 20, 3, 3), {"block, one path", "greedy multi-path", "pick then block"}
    tree, lines = cell.tree(0), cell.lines(0, 2)
    for name, rule in verifiers().items():
        walks = name in along or name.startswith("nested")
        expected = [length_along(rule, line, tree.shape) for line in lines] if walks else [accepted(rule, tree)]  # type: ignore[arg-type]
        assert accepted(rule, tree, lines) == pytest.approx(np.mean(expected), abs=1e-15), name


@pytest.mark.parametrize(("cell", "walks"), [("mixed:30:3:2", 2), ("mixed:30:3:2", 0), ("llama3:1500:2:2", 1)])
def test_records_and_picture(cell: str, walks: int, tmp_path: Path) -> None:
    records = [json.loads(json.dumps(record)) for record in measure(Cell.parse(cell), 2, walks)]
    assert {record["verifier"] for record in records} == set(verifiers())
    for record in records:
        assert 0 <= record["accepted"] <= record["length"]
        assert record["ms"] > 0
    if installed("vl_convert"):
        plot(records, [], tmp_path / "paths.png")
        assert (tmp_path / "paths.png").stat().st_size > 0


def test_growth_follows_one_axis_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.paths.GROWTH", {"V": [(10, 2, 2), (20, 2, 2)]})
    assert {(record["axis"], record["vocab"]) for record in growth(1)} == {("V", 10), ("V", 20)}


def test_prefixes_of_the_picture_share_all_labels() -> None:
    found = owners()
    for length in (1, 2):
        level = [(q, g) for prefix, (q, g, _) in found.items() if len(prefix) == length]
        np.testing.assert_allclose(np.sum(level, axis=0), [1.0, 1.0], atol=1e-12)
