"""A recording that is killed in the middle."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from otspec.decode.recording.positions import record
from tests.processes import killed


def kill_after_three_chunks(recording: Any, path: Path) -> None:
    """Record in a process of its own, and kill it when three chunks are written."""
    chunks = 0

    def work(die: Callable[[], None]) -> None:
        def after(rows: Any) -> None:
            nonlocal chunks
            chunks += 1
            if chunks == 3:
                die()

        record(recording, path, after)

    killed(work)
