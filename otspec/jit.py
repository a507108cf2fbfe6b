"""One way to compile: numba, cached on disk, typed for the type checker.

numba's own cache holds machine code by the file of a function, and does not notice that a function it calls, in another
file, has changed.  So ours lies in a folder named after the contents of all sources that compiled code depends on, in
the user's cache directory; where that cannot be written, numba chooses as it does for everybody.  numba's settings
stay as they are: who has set NUMBA_CACHE_DIR finds the folder there.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pickle
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numba.core import config as numba_config
from numba.core import event
from numba.core.caching import FunctionCache, IndexDataCacheFile

from otspec.caches import user_cache

F = TypeVar("F", bound=Callable[..., object])

MARK = b"from otspec.jit import "
"""Sources with this line compile something."""

CONSTANTS = ("jit.py", "kernels/intrinsics.py", "tolerances.py", "schemes/draft_sets.py")
"""The others that compiled code takes something from: an edit anywhere else leaves the machine code valid."""

MOST_FOLDERS = 20
"""How many folders of machine code, one for each state of the sources, are kept: those used last."""

SENTENCE = (
    "otspec compiles its kernels at their first use, once per installation: some seconds each. "
    "otspec.warm_up() does it ahead of time.\n"
)


def jit(function: F) -> F:
    """Compile a function with numba at its first call, and keep the machine code on disk."""
    return _compiled(function)


def jit_of_sums(function: F) -> F:
    """`jit` for sums of positive terms, which may be added up in any order and so by vector instructions.

    Compiled into its callers: to hand over arrays token by token costs about as much as a short sum.
    """
    return _compiled(function, fastmath={"reassoc", "contract"}, forceinline=True)


def jit_vectorised(function: F) -> F:
    """`jit` for loops by vector instructions: sums in any order, and no check for a division by 0."""
    return _compiled(function, error_model="numpy", fastmath={"reassoc", "contract"})


def jit_inlined(function: F) -> F:
    """`jit` for a step of one caller: compiled into it, since to hand over many arrays costs more than a short step."""
    return _compiled(function, forceinline=True)


def jit_unlocked(function: F) -> F:
    """`jit` for a function that several threads of Python run at once."""
    return _compiled(function, nogil=True)


def _compiled(function: F, **options: Any) -> F:
    compiled = numba.njit(**options)(function)
    with _cached_in(cache_folder()):
        compiled._cache = _MachineCode(function)  # what numba does for cache=True, with a cache of ours
    return cast(F, compiled)


class _MachineCode(FunctionCache):
    """numba's cache of a function, without which all goes on where a file is damaged or cannot be written."""

    def __init__(self, function: Callable[..., object]) -> None:
        super().__init__(function)
        self._cache_file = _CheckedFiles(
            self._cache_path, self._impl.filename_base, self._impl.locator.get_source_stamp()
        )

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Read machine code; what cannot be read is dropped, and compiled anew."""
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # whatever pickle, numba or LLVM makes of a file that was cut
            with contextlib.suppress(OSError):
                self.flush()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Write machine code; where the disk is full, or may not be written to, every process compiles."""
        try:
            super().save_overload(sig, data)
        except OSError as error:
            self.disable()
            _say_once(
                f"otspec cannot keep its machine code in {self.cache_path}: {error}. It compiles anew every time.\n"
            )


class _CheckedFiles(IndexDataCacheFile):
    """numba's files with a digest before the machine code: LLVM ends the process where some of it was written over."""

    def _save_data(self, name: str, data: Any) -> None:
        code = self._dump(data)
        with self._open_for_write(self._data_path(name)) as file:
            file.write(_digest(code) + code)

    def _load_data(self, name: str) -> Any:
        whole = Path(self._data_path(name)).read_bytes()
        digest, code = whole[:DIGEST], whole[DIGEST:]
        if digest != _digest(code):
            raise ValueError(f"{name} is damaged")
        return pickle.loads(code)


DIGEST = 10
"""Bytes of a digest."""


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=DIGEST).digest()


@cache
def _say_once(sentence: str) -> None:
    if sys.stderr is not None:
        sys.stderr.write(sentence)


_changing = threading.Lock()


config: Any = numba_config
"""numba gives these settings no types."""


@contextlib.contextmanager
def _cached_in(folder: Path | None) -> Iterator[None]:
    """Have a function that is decorated here keep its machine code there: numba reads its settings at that moment."""
    if folder is None:
        yield
        return
    with _changing:
        before = config.CACHE_DIR
        config.CACHE_DIR = str(folder)
        try:
            yield
        finally:
            config.CACHE_DIR = before


@cache
def cache_folder() -> Path | None:
    """Where the machine code of these sources is kept; None where no such folder can be written."""
    folder = _all_folders() / f"{numba.__version__}-{_hash_of_sources(Path(__file__).parent)}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        os.utime(folder)  # used now
        if not os.access(folder, os.W_OK | os.X_OK):
            return None
    except OSError:
        return None
    _prune(folder)
    return folder


def _all_folders() -> Path:
    """The folder of our folders."""
    if config.CACHE_DIR:
        return Path(config.CACHE_DIR) / "otspec"
    return user_cache() / "machine-code"


def _hash_of_sources(package: Path) -> str:
    """Names and contents of the sources that compiled code depends on: some milliseconds."""
    digest = hashlib.blake2b(digest_size=DIGEST)
    for folder, inside, files in os.walk(package, followlinks=True):
        inside.sort()
        for name in sorted(name for name in files if name.endswith(".py")):
            source = Path(folder, name)
            place, text = source.relative_to(package).as_posix(), source.read_bytes()
            if MARK in text or place in CONSTANTS:
                digest.update(f"{place}\0".encode() + text + b"\0")
    return digest.hexdigest()


def _prune(current: Path) -> None:
    """Delete the folders that were used least recently; a process that still uses one compiles anew."""
    with contextlib.suppress(OSError):
        others = [folder for folder in current.parent.iterdir() if folder.is_dir() and folder != current]
        others.sort(key=lambda folder: folder.stat().st_mtime, reverse=True)
        for folder in others[MOST_FOLDERS - 1 :]:
            shutil.rmtree(folder, ignore_errors=True)


class _ShowOnce(event.Listener):
    """Shows at a terminal what takes so long, the first time that one of our functions is compiled."""

    shown = False

    def on_start(self, compilation: Any) -> None:
        module = compilation.data["dispatcher"].py_func.__module__
        if not self.shown and module.partition(".")[0] == "otspec" and sys.stderr is not None and sys.stderr.isatty():
            self.shown = True
            sys.stderr.write(SENTENCE)

    def on_end(self, compilation: Any) -> None:
        """Nothing to show."""


_listener = _ShowOnce()
event.register("numba:compile", _listener)


@jit_inlined
def wide(number: int) -> int:
    """Widen to 64 bits with a sign: a callee is compiled anew for a constant, for 32 bits, and without a sign."""
    return np.int64(number)  # type: ignore[return-value]
