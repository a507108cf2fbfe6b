"""Files that are written: errors name the file."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def named(path: Path) -> Iterator[None]:
    """Make an error of writing, such as a full disk, name the file, as one after it was opened does not by itself.

    Raises
    ------
    OSError
        That of whatever is done inside.
    """
    try:
        yield
    except OSError as error:
        if error.filename is None and error.strerror is not None:
            error.filename = str(path)
        raise
    except Exception as error:
        if (code := re.search(r"\(os error (\d+)\)", str(error))) is None:
            raise
        number = int(code[1])  # of an extension in Rust, such as safetensors
        raise OSError(number, os.strerror(number), str(path)) from error


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file whole or not at all; text in UTF-8.

    Raises
    ------
    OSError
        If it cannot be written; the error names the file that it is written to first.
    """
    scratch = path.with_name(f"{path.name}.part")
    if isinstance(content, str):
        write_text(scratch, content)
    else:
        with named(scratch):
            scratch.write_bytes(content)
    os.replace(scratch, path)


def write_text(path: Path, text: str) -> None:
    """Write a file of text in UTF-8.

    Raises
    ------
    OSError
        If it cannot be written; the error names the file.
    """
    with named(path):
        path.write_text(text, encoding="utf-8")
