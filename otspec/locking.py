"""One process at a time in a folder, or at a file."""

from __future__ import annotations

import errno
import importlib
import json
import os
import platform
import sys
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from otspec.errors import DataError

NAME = ".lock"
"""The file that is locked in a folder; it stays there."""
_FAR = 1 << 30
"""Windows bars others from what is locked: a byte beyond the text, so that the text can be read."""
_HELD = (errno.EACCES, errno.EAGAIN, errno.EDEADLK)
_CANNOT = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS)
"""Errors of a file system without locks: the folder is then used as it is."""


class Lock:
    """Holds what several processes may want until it is released, or the process ends, in whatever way.

    Parameters
    ----------
    file : Path
        What is locked: any file, which is created.
    what : Path
        What it stands for.
    stays : bool
        Whether the file remains after it is released.  One that is deleted may be open in another process by then:
        whoever locks a file checks that it is still in its place.

    Raises
    ------
    DataError
        If another process holds it; the message names both.
    """

    def __init__(self, file: Path, what: Path, *, stays: bool) -> None:
        self._path = None if stays else file
        while True:
            self._file: IO[str] = file.open("a+", encoding="utf-8")
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
                    f"{what} is in use by {holder}; wait until it has ended, or give --out another name"
                ) from error
            if stays or _is_at(self._file, file):
                break
            self._file.close()
        self._file.seek(0)
        self._file.truncate()
        json.dump({"process": os.getpid(), "host": platform.node()}, self._file)
        self._file.flush()

    @classmethod
    def of_folder(cls, folder: Path) -> Lock:
        """Hold a folder, which is there."""
        return cls(folder / NAME, folder, stays=True)

    @classmethod
    def of_file(cls, file: Path) -> Lock:
        """Hold a file that is to be written, by one beside it."""
        return cls(file.with_name(f".{file.name}{NAME}"), file, stays=False)

    def release(self) -> None:
        """Let others in."""
        if self._path is not None and not self._file.closed:
            with suppress(OSError):  # Windows removes no file that is open, and then it stays
                self._path.unlink()
        self._file.close()

    def _holder(self) -> str:
        self._file.seek(0)
        try:
            about = json.loads(self._file.read())
            return f"process {about['process']} on {about['host']}"
        except (OSError, ValueError, KeyError, TypeError):  # it has the lock, and has not signed yet
            return "another process"


def _is_at(file: IO[str], path: Path) -> bool:
    """Whether an open file is the one of that name."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _lock(file: IO[str]) -> None:
    # Each module is there on one kind of system only, and neither type checks on the other.
    if sys.platform == "win32":
        msvcrt: Any = importlib.import_module("msvcrt")
        file.seek(_FAR)
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
    else:
        fcntl: Any = importlib.import_module("fcntl")
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
