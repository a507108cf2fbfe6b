"""The text of the shipped pair: sources of Python's standard library, which every machine with Python has.

Left out are tests, what is not source (tables, generated data), and packages that some versions or distributions lack.
Whether a file is held out depends on its name alone, so that it is held out under every version of Python.
"""

from __future__ import annotations

import hashlib
import sysconfig
import tokenize
from pathlib import Path
from typing import NamedTuple

LEFT_OUT = {
    *("test", "tests", "idle_test", "site-packages", "dist-packages", "__pycache__", "__phello__"),
    *("encodings", "pydoc_data", "ensurepip", "idlelib", "turtledemo", "lib2to3", "distutils"),
}
"""Folders that are not part of the corpus; so are config-* and _sysconfigdata*, which describe one machine."""


class Source(NamedTuple):
    """One file: its name in the standard library, with slashes, and its text."""

    name: str
    text: str

    @property
    def held_out(self) -> bool:
        """Whether the models never see it in training: one file in twenty."""
        return hashlib.sha256(self.name.encode()).digest()[0] * 20 < 256


def read_corpus(root: Path | None = None) -> list[Source]:
    """All files of the corpus in order of their names; without a root, of the running Python's standard library."""
    folder, found = Path(sysconfig.get_path("stdlib")) if root is None else root, []
    for name in sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.py")):
        parts = name.split("/")
        if LEFT_OUT.isdisjoint(parts) and not any(part.startswith(("config-", "_sysconfigdata")) for part in parts):
            with tokenize.open(folder / name) as file:  # reads the encoding as Python does
                found.append(Source(name, file.read()))
    return found
