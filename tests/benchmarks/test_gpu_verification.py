"""Verification measured as on a GPU machine, at a tiny shape on a CPU."""

import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from benchmarks.gpu import verification  # noqa: E402
from benchmarks.gpu.work import Shape  # noqa: E402
from otspec.verification.device.trees import RULES  # noqa: E402

CPU = torch.device("cpu")
SMALL = Shape(vocab=200, batches=(1, 2), copied=1 << 16)


def test_every_line_is_measured_and_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(verification, "TINY", SMALL)
    for name in ("WARM", "REPEATS"):
        monkeypatch.setattr(verification, name, 1)
    assert verification.main(["--tiny", "--device", "cpu", "--out", str(tmp_path)]) == 0
    records = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()]
    assert [one["by"] for one in records] == 2 * ["sorting", "buckets", "buckets", "sorting", "block", *RULES]
    for one in records:
        assert "error" not in one, one
        assert one["ms"] > 0
        assert one["over_floor"] == pytest.approx(one["ms"] / one["floor_ms"])
        assert one["synchronisations"] is one["peak_bytes"] is one["graph_ms"] is None  # a CPU has none
    assert "| rows, n = 4 | buckets | 2 |" in (tmp_path / "report.md").read_text()
