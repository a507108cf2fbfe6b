from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
from benchmarks.shipped import KS, LAWS, NS, main


def test_every_law_is_measured_and_the_curve_is_drawn(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("vl_convert")
    monkeypatch.setattr(sys, "argv", ["shipped", "--positions", "2", "--out", str(tmp_path)])
    main()
    assert {path.name for path in tmp_path.iterdir()} == {"records.jsonl", "report.md", "shipped.png"}
    records = [json.loads(line) for line in (tmp_path / "records.jsonl").read_text().splitlines()]
    found = {(r["k"], r["n"], r["law"], r["position"]): r["acceptance"] for r in records}
    assert {(k, n, law) for k, n, law, _ in found} == {
        (k, n, law) for k in KS for n in NS for law in LAWS if n > 1 or law == "i.i.d."
    }
    for (k, n, law, position), acceptance in found.items():
        if n > 2:
            assert acceptance >= found[k, n - 1, law, position] - 1e-9
    assert all(-1e-9 <= r["bound"] - r["acceptance"] < 1e-3 for r in records)
