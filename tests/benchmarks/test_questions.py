"""Every question of the drivers, asked at a small size: its records, its tables, its picture, and its report."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
import typer
import typer.core
from typer.testing import CliRunner

from benchmarks.draft_laws import __main__ as draft_laws
from benchmarks.draft_laws import duels, laws, rules, shipped, solving
from benchmarks.path_rules import __main__ as path_rules
from benchmarks.path_rules import best_labels, best_shapes, causal_bound, decoded, paths, shapes, small, two_levels
from benchmarks.path_rules.grid import Cell
from benchmarks.questions import Question
from otspec.extras import installed, missing
from tests.each import each
from tests.test_documents import TEXTS

ASKED: dict[str, tuple[Question, str, int]] = {
    "paths": (paths.PATHS, "--cells mixed:30:3:2,llama3:1500:2:2 --trees 2 --walks 1", 2 * len(paths.PUBLISHED)),
    "paths-growth": (paths.PATHS, "--trees 1", 2 * (len(paths.PUBLISHED) - 1)),
    "rivals": (paths.RIVALS, "--cells mixed:30:2:2 --trees 2", len(paths.OF_2026)),
    "paths-small": (small.PATHS, "--models 1", len(paths.PUBLISHED) + 1),
    "rivals-small": (small.RIVALS, "--models 1", len(paths.OF_2026) + 1),
    "shapes": (shapes.SHAPES, "--laws mixed --vocab 12 --budgets 8 --trees 2", 2 * len(shapes.RULES)),
    "two-levels": (two_levels.TWO_LEVELS, "--trees 1", 3),
    "best-shapes": (
        best_shapes.BEST_SHAPES,
        "--laws mixed,far --vocab 12 --budgets 4 --contexts 3",
        2 * len(best_shapes.RULES),
    ),
    "causal-bound": (
        causal_bound.CAUSAL_BOUND,
        "--laws close --walks 5 --texts 10 --trees 5 --lengths 2 --paths 2 --vocab 20",
        len(causal_bound.RULES),
    ),
    "best-labels": (
        best_labels.BEST_LABELS,
        "--laws close --vocab 20 --classes 2 --length 2 --paths 2 --samples 10",
        1,
    ),
    "decoded": (
        decoded.DECODED,
        "--prompts 2 --paths 1,2 --depth 2 --new 6 --rules nested,interval",
        4,
    ),
    "laws": (laws.LAWS, "--data llama3 --positions 1", 3 * (4 * 10 + 1)),
    "shipped": (shipped.SHIPPED, "--positions 2", 2 * 3 * (4 + 3 + 3)),
    "rules": (rules.RULES, "--positions 1", 3 * (len(rules.PUBLISHED) + len(rules.MISUSED)) + 6),
    "without-replacement": (solving.WITHOUT_REPLACEMENT, "--positions 2 --k 20 --n 2,3", 4),
    "distinct-laws": (solving.DISTINCT_LAWS, "--positions 2 --k 20 --n 3", 8),
    "luce": (solving.LUCE, "--positions 2 --k 20 --n 2 --drafts noise --solvers luce,max_flow", 4),
    "slackness": (duels.SLACKNESS, "--positions 2 --k 5,8", 4),
    "earliest-deadline": (duels.EARLIEST_DEADLINE, "--positions 2", 2 * 2 * 2 * 2),
}
"""By command: its question, what it is asked for, and how many records that makes."""


def commands(questions: Sequence[Question]) -> set[str]:
    """The commands of some questions."""
    return {command.__name__.replace("_", "-") for question in questions for command in question.commands}


TAKE_TORCH = ("decoded", "shipped")


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small grids where a command has no option for them."""
    monkeypatch.setattr(paths, "GROWTH", {"V": [(10, 2, 2)], "L": [(10, 3, 2)]})
    monkeypatch.setattr(small, "SIZES", ((2, 2, 2),))
    monkeypatch.setitem(shapes.OF_BUDGET, 8, [(1, 2, 1), (2, 2)])
    monkeypatch.setattr(two_levels, "VOCABULARIES", (3,))
    monkeypatch.setattr(two_levels, "SHAPES", ((2, 2),))
    monkeypatch.setattr(rules, "SMALL", 3)
    monkeypatch.setattr(rules, "NS", (2,))
    monkeypatch.setattr(duels, "TOKENS", (20, 30))


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
    if command in TAKE_TORCH and missing(("torch", "transformers")):
        pytest.skip("torch and transformers are not installed")
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
    out = ("--out", str(tmp_path))
    ask("two-levels", "--trees", "1", *out)
    ask("two-levels", "--trees", "2", *out)  # of the same models and one more: this one counts
    report = (tmp_path / "two-levels.md").read_text()
    lines = (tmp_path / "two-levels.jsonl").read_text().splitlines()
    assert len(lines) == 6
    fresh = two_levels.tables([json.loads(line) for line in lines[3:]])
    assert fresh[0].markdown() in report
    (tmp_path / "two-levels.md").unlink()
    result = CliRunner().invoke(path_rules.app, ["report", "two-levels", str(tmp_path)])
    assert fresh[0].title in result.stdout
    assert (tmp_path / "two-levels.md").read_text() == report


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["paths", "--cells", "calm:50:4:2"], "'calm:50:4:2' is no cell"),
        (["paths", "--cells", "mixed:50:4"], "'mixed:50:4' is no cell"),
        (["shapes", "--laws", "calm"], "no laws 'calm'"),
        (["shapes", "--budgets", "9"], "no budget '9'"),
        (["shapes", "--rule", "best"], "no rule 'best'"),
        (["report", "shape", "."], "no question 'shape'"),
        (["report", "shapes", "."], "there is no shapes.jsonl"),
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


@each(page=TEXTS)
def test_pages_ask_what_the_drivers_take(page: str) -> None:
    apps = {"path_rules": path_rules.app, "draft_laws": draft_laws.app}
    for name, asked in re.findall(r"`(?:python -m\s+)?benchmarks\.(path_rules|draft_laws)\s([^`]+)`", page):
        command, *words = asked.split()
        group = typer.main.get_command(apps[name])
        assert isinstance(group, typer.core.TyperGroup)
        known = {option for one in group.commands[command].params for option in one.opts}
        assert {word for word in words if word.startswith("--")} <= known, asked
