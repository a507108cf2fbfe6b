from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from benchmarks.without_replacement import main


@pytest.mark.parametrize(
    ("arguments", "solves"),
    [
        (["--k", "20", "--n", "2,3"], 2 * 2),
        (["--k", "20", "--n", "3", "--solver", "polymatroid:tol=1e-6"], 2),
        (["--k", "20", "--n", "3", "--distinct"], 2 * 4),
    ],
)
def test_leaves_a_record_per_solve_and_a_table(
    arguments: list[str],
    solves: int,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "records.jsonl"
    monkeypatch.setattr(sys, "argv", ["script", "--positions", "2", "--json", str(path), *arguments])
    main()
    records = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(records) == solves
    for record in records:
        assert record["deviation"] <= 1e-12
        assert -1e-12 <= record["gap"] < 0.1
        assert record.get("iid", 0) <= record["acceptance"] + record["gap"] + 1e-12  # distinct drafts are worth more
    assert "(20, 3)" in capsys.readouterr().out
