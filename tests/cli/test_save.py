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


def test_a_trained_layer_becomes_what_engines_read(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    saved: tuple[str, ...],
    prompts: Path,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    trained = (
        "--prompts",
        str(prompts),
        "--texts",
        "8",
        "--length",
        "12",
        "--batch",
        "4",
        "--steps",
        "2",
        "--out",
        "layer",
    )
    assert otspec_command(monkeypatch, "train", "eagle1-published", "--target", saved[1], *trained) == 0
    assert otspec_command(monkeypatch, "save", "layer", "served", "--format", "eagle") == 0
    for flag, folder in (("--draft", "layer"), ("--draft", "served"), ("--drafter", "./served")):
        decode = ("decode", "--target", saved[1], flag, folder, "--prompt", "a b", "--max-new-tokens", "4")
        assert otspec_command(monkeypatch, *decode, "--paths", "1") == 0
    capsys.readouterr()
    assert otspec_command(monkeypatch, "decode", "--target", "served", "--draft", "served", "--prompt", "a") == 2
    assert "served holds layers that draft for another model" in " ".join(capsys.readouterr().err.split())
    assert otspec_command(monkeypatch, "save", "layer", "other", "--ahead", "2") == 2
