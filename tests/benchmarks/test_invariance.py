"""What invariant passes cost."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from benchmarks import invariance


def test_the_table_has_both_kinds_of_passes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["", "--prompts", "1", "--tokens", "4"])
    monkeypatch.setenv("COLUMNS", "200")
    invariance.main()
    shown = capsys.readouterr().out
    assert [line.split("│")[1].strip() for line in shown.splitlines() if line.startswith("│")] == list(invariance.WAYS)
    assert shown.count("1 of 1") == 2
