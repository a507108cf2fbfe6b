"""A run that is interrupted leaves a closed folder with its report, and says how to go on."""

from pathlib import Path

import pytest
import typer

from otspec.bench.records import RecordFolder
from otspec.cli.measuring import resumed


def test_an_interrupt_is_status_130_after_the_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = RecordFolder(tmp_path / "run", {})
    reported: list[int] = []
    monkeypatch.setattr("otspec.cli.measuring.report", lambda run, beside: reported.append(len(run.records)))

    def interrupted_run() -> None:
        with resumed(folder, "measuring", 2) as progress:
            folder.append({"position": 0})
            progress(1)
            raise KeyboardInterrupt

    with pytest.raises(typer.Exit) as exit_:
        interrupted_run()
    assert exit_.value.exit_code == 130
    assert reported == [1]
    assert "the same command goes on from 1 records" in capsys.readouterr().out
    with pytest.raises(ValueError, match="closed file"):
        folder.append({"position": 1})
