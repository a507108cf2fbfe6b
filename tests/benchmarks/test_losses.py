"""Losses that drafters learn by, compared."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from benchmarks import losses  # noqa: E402


def test_what_is_measured_and_how_it_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(losses, "HELD_OUT", 4)
    few = np.random.default_rng(0).integers(3, 2000, (8 + losses.HELD_OUT, 32))
    monkeypatch.setattr(losses, "_texts", lambda asked, models: few)
    given = ("--losses", "kl,alpha:2", "--seeds", "2", "--steps", "2", "--batch", "4", "--trees", "2")
    monkeypatch.setattr("sys.argv", ["losses", *given, "--out", str(tmp_path)])
    losses.main()
    records = [json.loads(line) for line in (tmp_path / "records.jsonl").read_text().splitlines()]
    assert [(one["loss"], one["seed"]) for one in records] == [("kl", 0), ("alpha:2", 0), ("kl", 1), ("alpha:2", 1)]
    for one in records:
        alphas = [one[name] for name in losses.FIGURES[:3]]
        assert 0 < alphas[0] < alphas[1] < alphas[2] < 1
        assert 0 <= one[losses.FIGURES[3]] <= losses.DEPTH
    said = capsys.readouterr().out
    assert "Losses: shipped, 2 steps of 4 texts, 2 seeds" in said
    assert "(p " in said
    losses.main()  # nothing is trained again
    assert [json.loads(line) for line in (tmp_path / "records.jsonl").read_text().splitlines()] == records
