"""`otspec save` as a user types it."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from tests.cli.test_commands import otspec_command


def test_a_model_becomes_a_folder(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], saved: tuple[str, ...], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert otspec_command(monkeypatch, "save", saved[1], "out", "--dtype", "bfloat16") == 0
    assert "parameters in bfloat16\n" in capsys.readouterr().out
    again = ("decode", "--target", "out", "--draft", "out", "--prompt", "a", "--max-new-tokens", "2")
    assert otspec_command(monkeypatch, *again, "--paths", "1") == 0
    capsys.readouterr()
    assert otspec_command(monkeypatch, "save", saved[1], "out") == 2
    assert "out is there already; delete it, or name another folder" in " ".join(capsys.readouterr().err.split())
