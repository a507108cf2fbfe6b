"""One process at a time in a folder."""

from __future__ import annotations

import errno
import importlib
import json
import os
import platform
import sys
from pathlib import Path
from typing import IO, Any

from otspec.errors import DataError

NAME = ".lock"
"""The file that is locked; it stays in the folder, as to remove it would let two processes lock two files."""
_FAR = 1 << 30
"""Windows bars others from what is locked: a byte beyond the text, so that the text can be read."""
_HELD = (errno.EACCES, errno.EAGAIN, errno.EDEADLK)
_CANNOT = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS)
"""What a file system without locks says: the folder is then used as it is."""


class FolderLock:
    """Holds a folder until it is released, or the process ends in whatever way.

    Raises
    ------
    DataError
        If another process holds the folder; the message names both.
    """

    def __init__(self, folder: Path) -> None:
        self._file: IO[str] = (folder / NAME).open("a+", encoding="utf-8")
        try:
            _lock(self._file)
        except OSError as error:
            if error.errno in _CANNOT:
                return
            holder = self._holder()
            self._file.close()
            if error.errno not in _HELD:
                raise
            raise DataError(
                f"{folder} is in use by {holder}; wait until it has ended, or give --out another folder"
            ) from error
        self._file.seek(0)
        self._file.truncate()
        json.dump({"process": os.getpid(), "host": platform.node()}, self._file)
        self._file.flush()

    def release(self) -> None:
        """Let others in."""
        self._file.close()

    def _holder(self) -> str:
        self._file.seek(0)
        try:
            about = json.loads(self._file.read())
            return f"process {about['process']} on {about['host']}"
        except (OSError, ValueError, KeyError, TypeError):  # it has the lock, and has not signed yet
            return "another process"


def _lock(file: IO[str]) -> None:
    # Each module is there on one kind of system only, and neither type checks on the other.
    if sys.platform == "win32":
        msvcrt: Any = importlib.import_module("msvcrt")
        file.seek(_FAR)
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
    else:
        fcntl: Any = importlib.import_module("fcntl")
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
