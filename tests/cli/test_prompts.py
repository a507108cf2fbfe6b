"""Prompts and tasks as commands read them."""

import json
from pathlib import Path

import pytest

from otspec import DataError
from otspec.cli.prompts import SUMMARY, ChatOptions, Prompt, read_tasks

Line = dict[str, object]
LINES: list[Line] = [
    {"question_id": 1, "category": "writing", "turns": ["a\u2028b", "and then?"]},
    {"question_id": 2, "category": "writing", "turns": ["c"]},
    {"task": "math", "prompt": "1 + 1 =", "category": "not this"},
    {"question_id": 4, "category": "writing", "turns": ["d"]},
    {"category": "qa", "turns": ["who?"]},
    {"task": "math", "prompt": "2 + 2 ="},
]


def write(path: Path, lines: list[Line]) -> Path:
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")
    return path


def test_prompts_come_in_turn_from_every_task(tmp_path: Path) -> None:
    request = [
        Prompt(("a\u2028b", "and then?"), "writing", spoken=True),
        Prompt(("1 + 1 =",), "math"),
        Prompt(("who?",), "qa", spoken=True),
        Prompt(("c",), "writing", spoken=True),
        Prompt(("2 + 2 =",), "math"),
        Prompt(("d",), "writing", spoken=True),
    ]
    assert read_tasks([write(tmp_path / "tasks.jsonl", LINES)]) == request
    both = write(tmp_path / "one.jsonl", LINES[:3]), write(tmp_path / "two.jsonl", LINES[3:])
    assert read_tasks(both) == request


def test_prompts_of_no_task_are_of_their_file(tmp_path: Path) -> None:
    files = [write(tmp_path / f"{name}.jsonl", [{"turns": [name]}, {"turns": ["b"]}]) for name in ("gsm8k", "mbpp")]
    found = [(one.task, one.turns[0]) for one in read_tasks(files)]
    assert found == [("gsm8k", "gsm8k"), ("mbpp", "mbpp"), ("gsm8k", "b"), ("mbpp", "b")]


def test_a_prompt_is_cut_to_its_last_tokens_and_held_out_text_is_a_task() -> None:
    pytest.importorskip("torch")
    from otspec.decode.pair.loading import load_models
    from otspec.decode.shipped import held_out

    models = load_models("shipped", None, "cpu")
    found = read_tasks([Path("held-out")])
    assert {one.task for one in found} == {"held-out"}
    whole, cut = (ChatOptions(prompt_tokens=most).conversations(found, models, 2) for most in (None, 5))
    assert [one.first[-5:] for one in whole] == [one.first for one in cut]
    spelled = [models.tokenizer.decode(row, skip_special_tokens=True) for row in held_out()]
    assert [models.tokenizer.decode(one.first, skip_special_tokens=True) for one in whole] == spelled


LACKING: list[Line] = [{"task": "math"}, {"task": 3, "prompt": 4}, {}]
LACKING += [{"task": "m", "turns": turns} for turns in ([], [3], "a")]
NO_PROMPT = r"line 2 has no prompt in a field known here: prompt \(HumanEval\), .*; write"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        *((f"{json.dumps(LINES[0])}\n{json.dumps(line)}\n", NO_PROMPT) for line in LACKING),
        ("[1]\n", "line 1 has no prompt"),
        ("{\n", "line 1 is no JSON"),
        ("\n", "holds no prompts"),
    ],
)
def test_lines_without_a_prompt_are_refused(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "tasks.jsonl").write_text(text)
    with pytest.raises(DataError, match=message):
        read_tasks([tmp_path / "tasks.jsonl"])


SAID = [{"role": role, "content": text} for role, text in (("user", "a"), ("assistant", "b"), ("user", "c"))]
PUBLISHED: list[tuple[Line, tuple[str, ...], bool]] = [
    ({"instruction": "Add.", "input": "1, 2", "output": "3"}, ("Add.\n\n1, 2",), True),
    ({"instruction": "Add.", "input": "", "output": "3"}, ("Add.",), True),
    ({"adversarial": "Imagine ...", "label": 1}, ("Imagine ...",), True),
    ({"vanilla": "How?", "adversarial": "", "completion": "So."}, ("How?",), True),
    ({"prompt": "a", "messages": SAID}, ("a", "c"), True),
    ({"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]}, ("a",), True),
    ({"question": "a", "answer": "b"}, ("a",), True),
    ({"document": "a", "summary": "b", "id": "c"}, (f"{SUMMARY}\n\na",), True),
    ({"task_id": "HumanEval/0", "prompt": "def a", "entry_point": "a"}, ("def a",), False),
    ({"text": "a"}, ("a",), False),
    ({"prompt": "a", "turns": ["b", "c"], "question": "d"}, ("a",), False),
]


@pytest.mark.parametrize(("line", "turns", "spoken"), PUBLISHED)
def test_lines_of_data_sets_as_they_are_published(
    tmp_path: Path, line: Line, turns: tuple[str, ...], spoken: bool
) -> None:
    assert read_tasks([write(tmp_path / "set.jsonl", [line])]) == [Prompt(turns, "set", spoken=spoken)]
