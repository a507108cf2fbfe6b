"""`otspec verify` as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.test_commands import otspec_command


def test_one_claim_in_all_its_forms(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    stored, read = tmp_path / "found.json", tmp_path / "found.md"
    arguments = ("--claim", "hit-*", "--trials", "20", "--json", str(stored), "--markdown", str(read))
    assert otspec_command(monkeypatch, "verify", *arguments) == 0
    assert "hit-submodular" in capsys.readouterr().out
    assert "`hit-submodular`" in read.read_text()
    (source,) = json.loads(stored.read_text())["sources"]
    assert source["claims"][0]["trials"] == 20
    assert otspec_command(monkeypatch, "verify", "--replay", str(stored)) == 0
    assert "margin now" in capsys.readouterr().out


def test_an_unknown_claim_is_an_error_that_names_others(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert otspec_command(monkeypatch, "verify", "--claim", "hit-submodula") == 2
    assert "hit-submodular" in capsys.readouterr().err


CUT = '{"sources": [{"claims": [{"id": "hit-submodular", "worst": 0, "witness": "p"}]}]}'


def test_a_file_that_is_no_json_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    broken = tmp_path / "broken.json"
    for content in (b"{", b"\x80\x00\xff", b"", b"[" * 100_000):
        broken.write_bytes(content)
        assert otspec_command(monkeypatch, "verify", "--replay", str(broken)) == 2
        error = capsys.readouterr().err
        assert "cannot be read as JSON" in error
        assert "Traceback" not in error
    for text in ("3", "[]", "null", '{"sources": 3}', '{"sources": [{"claims": [{"id": []}]}]}', CUT):
        broken.write_text(text)
        assert otspec_command(monkeypatch, "verify", "--replay", str(broken)) == 2
        assert "this is no report of" in capsys.readouterr().err
