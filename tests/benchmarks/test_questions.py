"""Every question of the drivers, asked at a small size: its records, its tables, its picture, and its report."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from benchmarks.draft_laws import __main__ as draft_laws
from benchmarks.draft_laws import laws
from benchmarks.path_rules import __main__ as path_rules
from benchmarks.path_rules import causal_bound, paths, small
from benchmarks.path_rules.grid import Cell
from benchmarks.questions import Question
from otspec.extras import installed

ASKED: dict[str, tuple[Question, str, int]] = {
    "paths": (paths.PATHS, "--cells mixed:30:3:2,llama3:1500:2:2 --trees 2 --walks 1", 2 * len(paths.PUBLISHED)),
    "paths-growth": (paths.PATHS, "--trees 1", 2 * (len(paths.PUBLISHED) - 1)),
    "paths-small": (small.PATHS, "--models 1", len(paths.PUBLISHED) + 1),
    "causal-bound": (
        causal_bound.CAUSAL_BOUND,
        "--laws close --walks 5 --texts 10 --trees 5 --lengths 2 --paths 2 --vocab 20",
        len(causal_bound.RULES),
    ),
    "laws": (laws.LAWS, "--data llama3 --positions 1", 3 * (4 * 9 + 1)),
}
"""By command: its question, what it is asked for, and how many records that makes."""


def commands(questions: Sequence[Question]) -> set[str]:
    """The commands of some questions."""
    return {command.__name__.replace("_", "-") for question in questions for command in question.commands}


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small grids where a command has no option for them."""
    monkeypatch.setattr(paths, "GROWTH", {"V": [(10, 2, 2)], "L": [(10, 3, 2)]})
    monkeypatch.setattr(small, "SIZES", ((2, 2, 2),))


def ask(*words: str) -> str:
    """What a driver prints."""
    app = path_rules.app if words[0] in commands(path_rules.QUESTIONS) else draft_laws.app
    result = CliRunner().invoke(app, words, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_every_command_is_asked() -> None:
    assert commands([*path_rules.QUESTIONS, *draft_laws.QUESTIONS]) == ASKED.keys()


@pytest.mark.parametrize("command", ASKED)
def test_a_question_leaves_records_and_a_report(command: str, tmp_path: Path) -> None:
    question, asked, count = ASKED[command]
    shown = ask(command, *asked.split(), "--out", str(tmp_path))
    records = [json.loads(line) for line in (tmp_path / f"{question.name}.jsonl").read_text().splitlines()]
    assert len(records) == count
    assert len({question.of(record) for record in records}) == count
    tables = question.told(records)
    report = (tmp_path / f"{question.name}.md").read_text()
    for table in tables:
        assert table.title in " ".join(shown.split())
        assert table.markdown() in report
    picture = tmp_path / f"{question.name}.png"
    assert picture.exists() == (question.picture is not None and installed("vl_convert"))
    if picture.exists():
        assert picture.stat().st_size > 10_000


def test_runs_into_one_folder_make_one_report(tmp_path: Path) -> None:
    out, count = ("--out", str(tmp_path)), len(paths.PUBLISHED) + 1
    ask("paths-small", "--models", "1", *out)
    ask("paths-small", "--models", "2", *out)  # of the same models and one more: this one counts
    report = (tmp_path / "paths-small.md").read_text()
    lines = (tmp_path / "paths-small.jsonl").read_text().splitlines()
    assert len(lines) == 2 * count
    fresh = small.tables([json.loads(line) for line in lines[count:]])
    assert fresh[0].markdown() in report
    (tmp_path / "paths-small.md").unlink()
    result = CliRunner().invoke(path_rules.app, ["report", "paths-small", str(tmp_path)])
    assert fresh[0].title in result.stdout
    assert (tmp_path / "paths-small.md").read_text() == report


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["paths", "--cells", "calm:50:4:2"], "'calm:50:4:2' is no cell"),
        (["paths", "--cells", "mixed:50:4"], "'mixed:50:4' is no cell"),
        (["causal-bound", "--laws", "calm"], "no laws 'calm'"),
        (["paths", "--rule", "best"], "no rule 'best'"),
        (["report", "path", "."], "no question 'path'"),
        (["report", "paths-small", "."], "there is no paths-small.jsonl"),
    ],
)
def test_what_is_not_there_is_refused(words: list[str], told: str) -> None:
    result = CliRunner().invoke(path_rules.app, words)
    assert result.exit_code == 2
    assert told in " ".join(result.output.replace("│", " ").split())


def test_cells_are_read() -> None:
    assert Cell.parse("mixed:50:4:2") == Cell("mixed", 50, 4, 2)
    with pytest.raises(typer.BadParameter, match="is no cell"):
        Cell.parse("mixed:50:4:two")
