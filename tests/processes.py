"""Processes of their own: what they print, and what they leave when they are killed in the middle."""

import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def printed(code: str, folder: Path = ROOT, **environment: str) -> str:
    """What a new Python prints that runs some code in a folder; an empty variable of its environment is left out."""
    own = {name: value for name, value in {**os.environ, **environment}.items() if value or name not in environment}
    ran = subprocess.run([sys.executable, "-c", code], cwd=folder, env=own, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@contextmanager
def held(script: str, *words: str | Path) -> Iterator[subprocess.Popen[str]]:
    """Run a script until it prints ``held`` and waits for a line; kill it in the end, unless it has ended by itself."""
    command = [sys.executable, "-c", script, *map(str, words)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


def killed(work: Callable[[Callable[[], None]], object]) -> None:
    """Do something in a copy of this process, which has imported all of it, until it calls what it is handed."""
    if not hasattr(os, "fork"):
        pytest.skip("a process cannot be copied here")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of a process with threads, which the copy does not need
        child = os.fork()
    if child == 0:
        if "torch" in sys.modules:
            sys.modules["torch"].set_num_threads(1)  # more of them did not come along, and would be waited for
        try:
            work(lambda: os.kill(os.getpid(), signal.SIGKILL))
        finally:
            os._exit(1)  # nothing of the tests goes on there
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status)
    assert os.WTERMSIG(status) == signal.SIGKILL
