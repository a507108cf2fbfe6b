"""Commands as a user types them, in this process, and what they leave."""

import json
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest


class Said(NamedTuple):
    """What a command wrote, with one space wherever it broke a line or drew a frame."""

    out: str
    err: str


class Pair(NamedTuple):
    """Folders of a target and of a draft model; as a text, how commands are told of them."""

    target: str
    draft: str

    def __str__(self) -> str:
        return f"--target {self.target} --draft {self.draft}"


Otspec = Callable[..., Said]
"""Takes a command line and the exit status to expect, 0 if nothing is said."""


def otspec_command(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Exit status of `otspec` with the arguments."""
    from otspec.cli import main

    monkeypatch.setattr(sys, "argv", ["otspec", *arguments])
    with pytest.raises(SystemExit) as exit_:
        main()
    return int(exit_.value.code or 0)


def runner(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Otspec:
    """Runs command lines; none may end in a traceback."""

    def run(line: str, status: int = 0) -> Said:
        capsys.readouterr()
        ended = otspec_command(monkeypatch, *shlex.split(line))
        said = Said(*(" ".join(text.replace("│", " ").split()) for text in capsys.readouterr()))
        assert ended == status, (line, said)
        assert "Traceback" not in said.err, (line, said.err)
        return said

    return run


def lines_of(path: str | Path) -> list[dict[str, Any]]:
    """The records of a file of JSON lines."""
    return [json.loads(line) for line in Path(path).read_text().splitlines()]
