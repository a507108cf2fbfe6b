"""Verification measured as on a GPU machine, at a tiny shape on a CPU."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from benchmarks.gpu import verification  # noqa: E402
from benchmarks.gpu.work import DEPTH, PATHS, Shape, Work, works  # noqa: E402
from otspec.verification.device.trees import RULES  # noqa: E402

CPU = torch.device("cpu")
SMALL = Shape(vocab=200, batches=(1, 2), copied=1 << 16)


def test_every_line_is_measured_and_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(verification, "TINY", SMALL)
    for name in ("WARM", "REPEATS"):
        monkeypatch.setattr(verification, name, 1)
    assert verification.main(["--tiny", "--device", "cpu", "--out", str(tmp_path)]) == 0
    records = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()]
    ours = ("sorting", "buckets", "buckets", "sorting", *(f"otspec, as {name}" for name in ("flashinfer", "vLLM")))
    assert [one["by"] for one in records] == 2 * [*ours, *RULES, "otspec, as SGLang"]
    for one in records:
        assert "error" not in one, one
        assert one["ms"] > 0
        assert one["over_floor"] == pytest.approx(one["ms"] / one["floor_ms"])
        assert one["synchronisations"] is one["peak_bytes"] is one["graph_ms"] is None  # a CPU has none
    assert "| rows, n = 4 | buckets | 2 |" in (tmp_path / "report.md").read_text()


def test_bytes_are_those_of_the_laws_and_outputs_are_tokens() -> None:
    made = {(work.what, work.by): work for work in works(SMALL, 2, CPU)}
    assert made["rows, n = 4", "sorting"].bytes == 2 * 2 * 200 * 4
    assert made["chains, L = 8", "otspec, as flashinfer"].bytes == 2 * (2 * DEPTH + 1) * 200 * 4
    assert made["chains, L = 8", "otspec, as vLLM"].bytes == 2 * 2 * DEPTH * 200 * 4
    for (what, _), work in made.items():
        found: Any = work.call()
        if what.startswith("rows") or what == "trees, K = 4, L = 8":
            assert found.valid.all()
    tree = made["trees, K = 4, L = 8, target only", "otspec, as SGLang"].call.__closure__
    given = next(cell.cell_contents for cell in tree or () if isinstance(cell.cell_contents, dict))
    assert given["accept_token_num"].max() <= DEPTH
    # Every node is some node's child or sibling, once: it is a tree of K paths.
    named = torch.cat((given["retrive_next_token"][0], given["retrive_next_sibling"][0]))
    assert sorted(named[named >= 0].tolist()) == list(range(1, PATHS * DEPTH + 1))


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
