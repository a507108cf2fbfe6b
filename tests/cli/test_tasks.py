"""`otspec bench decode --tasks`: prompts by task, and figures of each."""

import json
from pathlib import Path

import pytest

from otspec import DataError
from otspec.cli.prompts import Prompt, read_prompts, read_tasks
from otspec.cli.schemas import SUMMARY
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
    asked = [
        Prompt(("a\u2028b", "and then?"), "writing", spoken=True),
        Prompt(("1 + 1 =",), "math"),
        Prompt(("who?",), "qa", spoken=True),
        Prompt(("c",), "writing", spoken=True),
        Prompt(("2 + 2 =",), "math"),
        Prompt(("d",), "writing", spoken=True),
    ]
    assert read_tasks([write(tmp_path / "tasks.jsonl", LINES)]) == asked
    both = write(tmp_path / "one.jsonl", LINES[:3]), write(tmp_path / "two.jsonl", LINES[3:])
    assert read_tasks(both) == asked


def test_prompts_of_no_task_are_of_their_file(tmp_path: Path) -> None:
    files = [write(tmp_path / f"{name}.jsonl", [{"turns": [name]}, {"turns": ["b"]}]) for name in ("gsm8k", "mbpp")]
    assert [(one.task, one.turns[0]) for one in read_tasks(files)] == [
        ("gsm8k", "gsm8k"),
        ("mbpp", "mbpp"),
        ("gsm8k", "b"),
        ("mbpp", "b"),
    ]


def test_the_questions_that_come_with_the_package() -> None:
    """Of every category of Spec-Bench, none of the prompts twice."""
    found = read_tasks([Path("shipped")])
    assert len(found) == len({one.turns for one in found}) == 40
    tasks = [one.task for one in found]
    assert len(set(tasks)) == 13
    assert {tasks.count(task) for task in tasks} <= {3, 4}
    assert sum(len(one.turns) == 2 for one in found) == 24
    assert set(read_prompts(Path("shipped"))) == set(found)


def test_lines_without_a_prompt_are_refused(tmp_path: Path) -> None:
    wrong: list[dict[str, object]] = [{"task": "math"}, {"task": 3, "prompt": 4}, {}]
    wrong += [{"task": "m", "turns": []}, {"task": "m", "turns": [3]}, {"task": "m", "turns": "a"}]
    for line in wrong:
        with pytest.raises(
            DataError, match=r"line 2 has no prompt in a field known here: prompt \(HumanEval\), .*; write"
        ):
            read_tasks([write(tmp_path / "tasks.jsonl", [*LINES[:1], line])])
    for text, message in (("[1]\n", "line 1 has no prompt"), ("{\n", "line 1 is no JSON"), ("\n", "holds no prompts")):
        (tmp_path / "tasks.jsonl").write_text(text)
        with pytest.raises(DataError, match=message):
            read_tasks([tmp_path / "tasks.jsonl"])


@pytest.mark.parametrize(
    ("line", "asked"),
    [
        ({"instruction": "Add.", "input": "1, 2", "output": "3"}, Prompt(("Add.\n\n1, 2",), "set", spoken=True)),
        ({"instruction": "Add.", "input": "", "output": "3"}, Prompt(("Add.",), "set", spoken=True)),
        ({"adversarial": "Imagine ...", "label": 1}, Prompt(("Imagine ...",), "set", spoken=True)),
        ({"vanilla": "How?", "adversarial": "", "completion": "So."}, Prompt(("How?",), "set", spoken=True)),
        (
            {
                "prompt": "a",
                "messages": [
                    {"role": "user", "content": "a"},
                    {"role": "assistant", "content": "b"},
                    {"role": "user", "content": "c"},
                ],
            },
            Prompt(("a", "c"), "set", spoken=True),
        ),
        (
            {"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]},
            Prompt(("a",), "set", spoken=True),
        ),
        ({"question": "a", "answer": "b"}, Prompt(("a",), "set", spoken=True)),
        ({"document": "a", "summary": "b", "id": "c"}, Prompt((f"{SUMMARY}\n\na",), "set", spoken=True)),
        ({"task_id": "HumanEval/0", "prompt": "def a", "entry_point": "a"}, Prompt(("def a",), "set")),
        ({"text": "a"}, Prompt(("a",), "set")),
        ({"prompt": "a", "turns": ["b", "c"], "question": "d"}, Prompt(("a",), "set")),
    ],
)
def test_lines_of_data_sets_as_they_are_published(tmp_path: Path, line: dict[str, object], asked: Prompt) -> None:
    assert read_tasks([write(tmp_path / "set.jsonl", [line])]) == [asked]


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
    for title in ("Tokens per target call", "mean_acceptance_length", "Speed-up over vanilla", "Where the time goes"):
        assert f"## {title} by task: temperature 1" in report
    assert report.count("| rule | math | qa | writing | mean | all |") == 3
    assert report.count("| math | vanilla |") == 1
    assert "by task" in shown
    assert otspec_command(monkeypatch, *decode, "--prompts", str(tasks)) == 2
    assert "--prompts is given too" in " ".join(capsys.readouterr().err.split())
    write(tasks, [*LINES[:-1], LINES[-1] | {"task": "maths"}])
    assert otspec_command(monkeypatch, *decode, "--first", "4") == 2
    assert "holds another run: its prompts is" in " ".join(capsys.readouterr().err.split())
