"""The text of the shipped pair: sources of Python's standard library, which every machine with Python has.

Left out are tests, what is not source (tables, generated data), and packages that some versions or distributions lack.
Whether a file is held out depends on its name alone, so that it is held out under every version of Python.
"""

from __future__ import annotations

import hashlib
import sysconfig
import tokenize
from dataclasses import dataclass
from pathlib import Path

LEFT_OUT = {
    *("test", "tests", "idle_test", "site-packages", "dist-packages", "__pycache__", "__phello__"),
    *("encodings", "pydoc_data", "ensurepip", "idlelib", "turtledemo", "lib2to3", "distutils"),
}
"""Folders that are not part of the corpus; so are config-* and _sysconfigdata*, which describe one machine."""

HELD_OUT = 20
"""One file in this many is held out."""


@dataclass(frozen=True)
class Source:
    """One file of the corpus."""

    name: str
    """Relative to the standard library, with slashes."""
    text: str

    @property
    def held_out(self) -> bool:
        """Whether the models never see it in training."""
        return hashlib.sha256(self.name.encode()).digest()[0] * HELD_OUT < 256


def read_corpus(root: Path | None = None) -> list[Source]:
    """All files of the corpus in order of their names; without a root, of the running Python's standard library."""
    folder = Path(sysconfig.get_path("stdlib")) if root is None else root
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.py"))
    return [Source(name, _read(folder / name)) for name in names if _belongs(name)]


def _belongs(name: str) -> bool:
    parts = name.split("/")
    generated = any(part.startswith(("config-", "_sysconfigdata")) for part in parts)
    return not generated and LEFT_OUT.isdisjoint(parts)


def _read(path: Path) -> str:
    with tokenize.open(path) as file:  # reads the encoding as Python does
        return file.read()
