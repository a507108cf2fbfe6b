"""Prompts as a user gives them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from otspec.errors import DataError

FORMAT = (
    "A file with a prompt per line, blank lines skipped; or, if its name ends in .jsonl, JSON lines with a field "
    "prompt."
)
"""For --help."""


TASKS = (
    "A file of JSON lines as in Spec-Bench, in place of --prompts: each has a task or category, and a prompt or turns, "
    "of which the first is the prompt. The report has figures for each task as well."
)
"""For --help."""


class TaskPrompt(NamedTuple):
    """A prompt, and what it is of."""

    task: str
    prompt: str


def read_prompts(path: Path) -> list[str]:
    r"""The prompts of a file: one a line, ``\n`` in them written as JSON lines only can.

    Raises
    ------
    DataError
        If there is no such file, or it holds no prompts, or a line that is none.
    """
    numbered = _numbered(path)
    if path.suffix != ".jsonl":
        return [line for _, line in numbered]
    return [_prompt(path, number, line) for number, line in numbered]


def read_tasks(path: Path) -> list[TaskPrompt]:
    """The prompts of a file of tasks, in turn from each task: the first so many are of all tasks.

    Raises
    ------
    DataError
        If there is no such file, or it holds no prompts, or a line that is none or is of no task.
    """
    found: dict[str, list[TaskPrompt]] = {}
    for number, line in _numbered(path):
        record = _json(path, number, line)
        names = [record[name] for name in ("task", "category") if isinstance(record.get(name), str)]
        turns = record.get("turns")
        texts = [record.get("prompt"), *(turns[:1] if isinstance(turns, list) else [])]
        prompts = [text for text in texts if isinstance(text, str)]
        if not names or not prompts:
            raise DataError(
                f'{path}, line {number} lacks a task or a prompt; write lines such as {{"task": "math", "prompt": '
                f'"..."}} or {{"category": "math", "turns": ["..."]}}'
            )
        found.setdefault(names[0], []).append(TaskPrompt(names[0], prompts[0]))
    return [one for turn in zip_longest(*found.values()) for one in turn if one is not None]


def gather(texts: Sequence[str], file: Path | None) -> list[str]:
    """All prompts of a command.

    Raises
    ------
    DataError
        If there are none.
    """
    prompts = [*texts, *([] if file is None else read_prompts(file))]
    if not prompts:
        raise DataError("no prompts; pass --prompts FILE or --prompt TEXT")
    return prompts


def _numbered(path: Path) -> list[tuple[int, str]]:
    if not path.is_file():
        raise DataError(f"there is no file {path}; write prompts to it, or pass --prompt TEXT")
    try:
        lines = path.read_text(encoding="utf-8").split("\n")  # splitlines would part JSON at characters within it
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read: {error}") from error
    numbered = [(number, line) for number, line in enumerate(lines, start=1) if line.strip()]
    if not numbered:
        raise DataError(f"{path} holds no prompts; write one per line")
    return numbered


def _json(path: Path, number: int, line: str) -> dict[str, Any]:
    """A line as a table, an empty one if it is something else."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}, line {number} is no JSON ({error})") from error
    return record if isinstance(record, dict) else {}


def _prompt(path: Path, number: int, line: str) -> str:
    prompt = _json(path, number, line).get("prompt")
    if not isinstance(prompt, str):
        raise DataError(f'{path}, line {number} has no text under prompt; write lines such as {{"prompt": "..."}}')
    return prompt
