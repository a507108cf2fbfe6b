from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from benchmarks.pass_costs import main


def test_leaves_a_row_for_every_way(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked = ["--target", "shipped", "--rows", "1,3", "--new", "4"]
    monkeypatch.setattr(sys, "argv", ["pass_costs", *asked, "--out", str(tmp_path)])
    main()
    report = (tmp_path / "report.md").read_text()
    for dtype in ("float32", "bfloat16"):
        for way in ("transformers", "linear", "packed"):
            assert f"| {dtype} | {way} |" in report
    assert "3 over 1" in report
    assert "tokens/s" in report
