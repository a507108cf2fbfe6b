"""`otspec export-generate` as a user types it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from tests.cli.test_commands import otspec_command


def test_the_settings_are_written_down(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], saved: tuple[str, ...], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = ("--paths", "2", "--depth", "4", "--solver", "interval", "--draft-top-k", "10")
    assert otspec_command(monkeypatch, "export-generate", "out", "--draft", saved[3], *settings) == 0
    assert "Wrote out/custom_generate/generate.py\n" in capsys.readouterr().out
    written: dict[str, object] = {}
    exec(Path("out/custom_generate/generate.py").read_text(), written)
    assert written["DRAFT"] == str(Path(saved[3]).resolve())
    assert written["DRAFTS"] == {"paths": 2, "depth": 4, "solver": "interval", "draft_top_k": 10}
    assert otspec_command(monkeypatch, "export-generate", "bare", "--draft", "none") == 0
    exec(Path("bare/custom_generate/generate.py").read_text(), written)
    assert written["DRAFT"] is None
    assert written["DRAFTS"] == {}
    assert otspec_command(monkeypatch, "export-generate", "out") == 2
    assert "is there already; delete it, or name another folder" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("out", "--draft", "./nowhere"), "there is no draft model in './nowhere'"),
        (("out", "--paths", "2", "--branching", "2,2"), "leave out paths and depth"),
        (("out", "--pace", "settings.json"), "costs are of one machine"),
        (("empty.py",), "empty.py"),
    ],
)
def test_what_is_refused(refused: Callable[..., str], arguments: tuple[str, ...], message: str) -> None:
    assert message in refused("export-generate", *arguments)
    assert not Path("out").exists()
