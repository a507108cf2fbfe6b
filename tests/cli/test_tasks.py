"""`otspec bench decode --tasks`: prompts by task, and figures of each."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from otspec import DataError
from otspec.cli.prompts import TaskPrompt, read_tasks
from tests.cli.test_commands import otspec_command

LINES: list[dict[str, object]] = [
    {"question_id": 1, "category": "writing", "turns": ["a\u2028b", "and then?"]},
    {"question_id": 2, "category": "writing", "turns": ["c"]},
    {"task": "math", "prompt": "1 + 1 =", "category": "not this"},
    {"question_id": 4, "category": "writing", "turns": ["d"]},
    {"category": "qa", "turns": ["who?"]},
    {"task": "math", "prompt": "2 + 2 ="},
]


def write(path: Path, lines: list[dict[str, object]]) -> Path:
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")
    return path


def test_prompts_come_in_turn_from_every_task(tmp_path: Path) -> None:
    assert read_tasks(write(tmp_path / "tasks.jsonl", LINES)) == [
        TaskPrompt("writing", "a\u2028b"),
        TaskPrompt("math", "1 + 1 ="),
        TaskPrompt("qa", "who?"),
        TaskPrompt("writing", "c"),
        TaskPrompt("math", "2 + 2 ="),
        TaskPrompt("writing", "d"),
    ]


def test_lines_without_a_task_or_a_prompt_are_refused(tmp_path: Path) -> None:
    wrong: list[dict[str, object]] = [{"task": "math"}, {"prompt": "a"}, {"task": 3, "prompt": "a"}, {}]
    wrong += [{"task": "m", "turns": []}, {"task": "m", "turns": [3]}]
    for line in wrong:
        with pytest.raises(DataError, match="line 2 lacks a task or a prompt; write lines such as"):
            read_tasks(write(tmp_path / "tasks.jsonl", [*LINES[:1], line]))
    for text, message in (("[1]\n", "line 1 lacks"), ("{\n", "line 1 is no JSON"), ("\n", "holds no prompts")):
        (tmp_path / "tasks.jsonl").write_text(text)
        with pytest.raises(DataError, match=message):
            read_tasks(tmp_path / "tasks.jsonl")


def test_figures_are_told_for_each_task(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], saved: tuple[str, ...], tmp_path: Path
) -> None:
    monkeypatch.setattr("otspec.reporting.pictures.Picture.save", lambda *_: None)
    tasks, out = write(tmp_path / "tasks.jsonl", LINES), tmp_path / "out"
    cells = ("--paths", "2", "--depth", "2", "--solver", "nested", "--baselines", "", "--max-new-tokens", "3")
    decode = ("bench", "decode", *saved, "--tasks", str(tasks), *cells, "--out", str(out))
    assert otspec_command(monkeypatch, *decode, "--first", "4") == 0
    shown = capsys.readouterr().out
    lines = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
    assert {(one["prompt"], one["task"]) for one in lines} == {(0, "writing"), (1, "math"), (2, "qa"), (3, "writing")}
    report = (out / "report.md").read_text()
    for title in ("Tokens per target call", "Speed-up over vanilla", "Where the time goes"):
        assert f"## {title} by task: temperature 1" in report
    assert report.count("| rule | math | qa | writing | all |") == 2
    assert report.count("| math | vanilla |") == 1
    assert "by task" in shown
    assert otspec_command(monkeypatch, *decode, "--prompts", str(tasks)) == 2
    assert "--prompts is given too" in " ".join(capsys.readouterr().err.split())
    write(tasks, [*LINES[:-1], LINES[-1] | {"task": "maths"}])
    assert otspec_command(monkeypatch, *decode, "--first", "4") == 2
    assert "holds another run: its prompts is" in " ".join(capsys.readouterr().err.split())
