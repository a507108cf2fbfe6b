"""A recording that is killed in the middle, in a process of its own."""

from __future__ import annotations

from pathlib import Path

from tests.processes import killed

RECORD_AND_WAIT = """
import sys
from importlib import import_module
from pathlib import Path
from otspec.decode.recording.positions import record

def after(rows):
    after.chunks += 1
    if after.chunks == 3:
        print("held", flush=True)
        sys.stdin.read()

after.chunks = 0
record(import_module(sys.argv[1]).asked(), Path(sys.argv[2]), after)
"""


def kill_after_three_chunks(module: str, path: Path) -> None:
    """Record what a module of the tests has as `asked()`, and kill the process when three chunks are written."""
    killed(RECORD_AND_WAIT, module, path)
