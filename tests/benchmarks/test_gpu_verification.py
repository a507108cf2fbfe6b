"""Verification measured as on a GPU machine, at a tiny shape on a CPU."""

import json
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from benchmarks.gpu import verification  # noqa: E402
from benchmarks.gpu.work import DEPTH, Shape, Work, works  # noqa: E402
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


def test_bytes_are_those_of_the_laws_and_outputs_are_tokens() -> None:
    made = {(work.what, work.by): work for work in works(SMALL, 2, CPU)}
    assert made["rows, n = 4", "sorting"].bytes == 2 * 2 * 200 * 4
    assert made["chains, L = 8", "block"].bytes == 2 * (2 * DEPTH + 1) * 200 * 4
    for work in made.values():
        found: Any = work.call()
        assert found.valid.all()
        if work.what.startswith(("chains", "trees")):
            assert 0 <= found.accepted.min() <= found.accepted.max() <= DEPTH


def test_a_call_that_fails_is_a_line_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> None:
        raise torch.OutOfMemoryError("CUDA out of memory.\nSee the documentation")

    monkeypatch.setattr(verification, "works", lambda *given: [Work("rows", "sorting", fails, 8)])
    (record, _) = verification.run(SMALL, CPU)
    assert record["error"] == "OutOfMemoryError: CUDA out of memory."
    assert verification.table([record]).rows[0][3] == record["error"]


def test_what_it_needs_is_said(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert verification.main(["--device", "cpu", "--out", str(tmp_path / "new")]) == 2
    assert "pass --tiny as well" in capsys.readouterr().err
    if not torch.cuda.is_available():
        assert verification.main(["--out", str(tmp_path / "new")]) == 2
        assert "there is no GPU here" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()
