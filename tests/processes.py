"""Processes of their own, which are killed in the middle of what they do."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[1]


@contextmanager
def held(script: str, *words: str | Path) -> Iterator[subprocess.Popen[str]]:
    """Run a script until it prints ``held``, and kill it in the end, unless it has ended by itself.

    Parameters
    ----------
    script : str
        Python.  When it has printed that, it waits for a line on its standard input.
    *words : str or Path
        Its arguments.
    """
    command = [sys.executable, "-c", script, *map(str, words)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


def killed(script: str, *words: str | Path) -> None:
    """Run a script until it prints ``held``, and kill it there."""
    with held(script, *words):
        pass
