"""Prompts as a user gives them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from otspec.errors import DataError

FORMAT = "One prompt per line, blank lines skipped; or, if the name ends in .jsonl, JSON lines with a field prompt."
"""For --help."""


def read_prompts(path: Path) -> list[str]:
    r"""The prompts of a file: one a line, ``\n`` in them written as JSON lines only can.

    Raises
    ------
    DataError
        If there is no such file, or it holds no prompts, or a line that is none.
    """
    if not path.is_file():
        raise DataError(f"there is no file {path}; write prompts to it, or pass --prompt TEXT")
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read: {error}") from error
    numbered = [(number, line) for number, line in enumerate(lines, start=1) if line.strip()]
    if not numbered:
        raise DataError(f"{path} holds no prompts; write one per line")
    if path.suffix != ".jsonl":
        return [line for _, line in numbered]
    return [_prompt(path, number, line) for number, line in numbered]


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


def _prompt(path: Path, number: int, line: str) -> str:
    try:
        record = json.loads(line)
    except json.JSONDecodeError as error:
        raise DataError(f"{path}, line {number} is no JSON ({error})") from error
    prompt = record.get("prompt") if isinstance(record, dict) else None
    if not isinstance(prompt, str):
        raise DataError(f'{path}, line {number} has no text under prompt; write lines such as {{"prompt": "..."}}')
    return prompt
