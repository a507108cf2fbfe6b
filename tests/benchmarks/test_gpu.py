"""The report of a GPU machine, on a CPU: every cell, those that fail among them, and what is counted."""

import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")


from benchmarks.gpu import model, verification  # noqa: E402
from benchmarks.gpu.__main__ import main  # noqa: E402
from benchmarks.gpu.cells import Cell, Plan  # noqa: E402
from benchmarks.gpu.work import Shape  # noqa: E402
from otspec.verification.device.trees import RULES  # noqa: E402

CPU = torch.device("cpu")
SMALL = Plan(("tiny/tiny", "shipped"), (1, 2), (None, 10), vocab=300, new=6)


def test_every_cell_is_measured_and_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("benchmarks.gpu.__main__.TINY", SMALL)
    for name, runs in (("TRIAL", 4), ("BEFORE", 1), ("TIMED", 2)):
        monkeypatch.setattr(f"benchmarks.gpu.cells.{name}", runs)
    monkeypatch.setattr("benchmarks.gpu.cells.SHAPES", ((4, 8),))
    assert main(["--tiny", "--device", "cpu", "--out", str(tmp_path)]) == 0
    records = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()]
    assert [Cell(**{name: one[name] for name in Cell._fields}) for one in records] == SMALL.cells()
    for one in records:
        assert "error" not in one, one
        least, most = one["tokens_per_s_least_and_most"]
        assert 0 < least <= one["tokens_per_s"] <= most
        assert one["tokens"] == one["batch"] * 6, one
        assert one["synchronisations"] is one["peak_bytes"] is None  # a CPU has neither
        assert one["dtype"] == "float32"
    shown = (tmp_path / "report.md").read_text()
    assert "| shipped | 2 | multi-draft | 4 x 8 | none |" in shown
    assert shown.count("\n| tiny/tiny |") == len(records)  # half of the rows of two tables
    # What was measured is not measured away.
    assert main(["--tiny", "--device", "cpu", "--out", str(tmp_path)]) == 2
    assert len((tmp_path / "results.jsonl").read_text().splitlines()) == len(records)


def test_a_model_is_measured_with_its_drafter_by_every_rule(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    planned = model.cells()
    assert {cell.rule for cell in planned} >= {"plain", "block", "nested", "interval", *model.HOST}
    for number, cell in enumerate(planned):  # what it is compared with was measured before
        assert any(other.rule == "plain" and other.temperature == cell.temperature for other in planned[: number + 1])
    some = [model.Cell("plain", 1.0), model.Cell("nested", 1.0, 2, 3), model.Cell("max_flow", 1.0, 2, 2, 4)]
    some += [model.Cell(model.LIKELIEST, 0.0, branching=(2, 1)), model.Cell(model.DYNAMIC, 0.0, 2, 3)]
    failing = model.Cell("a rule that nobody knows", 1.0, 2, 3)
    monkeypatch.setattr(model, "cells", lambda _: [*some, model.Cell("lp", 1.0, 2, 2, 4), failing])
    monkeypatch.setattr(model, "installed", lambda package: package != "highspy")
    request = ["--model", "shipped", "--drafter", "shipped", "--device", "cpu", "--texts", "2", "--new", "6"]
    assert main([*request, "--out", str(tmp_path), "--trace"]) == 0
    *measured, lp, failed = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()]
    assert [one["rule"] for one in measured] == [cell.rule for cell in some]
    for one in measured:
        assert one["tokens"] == 2 * 6
        spent = sum(1e3 * sum(text["seconds"].values()) / text["tokens"] for text in one["texts"]) / 2
        assert one["ms_a_token"] == pytest.approx(spent)  # the median of two
        assert one["captures_before_and_while_timed"] == [0, 0]
        assert one["over_plain"] > 0
    assert len(list(tmp_path.glob("*.json.gz"))) == len(some)
    assert (tmp_path / "0_shipped_likeliest_2x1.json.gz").is_file()
    assert lp["error"] == "not measured: highspy is not installed"
    assert "a rule that nobody knows" in failed["error"]
    shown = (tmp_path / "report.md").read_text()
    assert "| 1 | shipped | nested | 2 x 3 | - |" in shown
    assert "| 0 | shipped | likeliest | 2, 1 | - |" in shown
    assert "| 0 | shipped | dynamic-tree | 2 x 3 | - |" in shown
    assert "| 1 | shipped | lp | 2 x 2 | 4 | not measured: highspy is not installed |" in shown
    assert main([*request, "--out", str(tmp_path)]) == 2  # what was measured is not measured away


def test_verification_is_measured_and_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(verification, "TINY", Shape(vocab=200, batches=(1, 2), copied=1 << 16))
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
