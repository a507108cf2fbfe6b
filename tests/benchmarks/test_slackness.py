from __future__ import annotations

import sys

import pytest

from benchmarks.slackness import main


def test_prints_a_row_for_each_setting(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["script", "--positions", "2", "--k", "5,8"])
    main()
    shown = capsys.readouterr().out
    assert "(5, 2)" in shown
    assert "(8, 2)" in shown
