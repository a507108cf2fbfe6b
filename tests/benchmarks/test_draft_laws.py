from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from benchmarks.draft_laws import KS, LAWS, NS, RULES, main


def test_every_law_and_rule_is_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("vl_convert")
    monkeypatch.setattr(sys, "argv", ["draft_laws", "--data", "llama3", "--positions", "1", "--out", str(tmp_path)])
    main()
    assert {path.name for path in tmp_path.iterdir()} == {"records.jsonl", "report.md", "draft_laws.png"}
    records = [json.loads(line) for line in (tmp_path / "records.jsonl").read_text().splitlines()]
    found = {(r["k"], r["n"], r["law"], r["rule"]): r["acceptance"] for r in records}
    assert {rule for *_, rule in found} == {"optimum", *RULES}
    assert {law for *_, law, _ in found} == LAWS.keys()
    for (k, n, law, rule), acceptance in found.items():
        best = found[k, n, "greedy" if law == "hub pairs" else law, "optimum"]
        assert 0 < acceptance <= best + 1e-9, (k, n, law, rule)
    assert {(k, n) for k, n, *_ in found} == {(k, n) for k in KS for n in NS}
