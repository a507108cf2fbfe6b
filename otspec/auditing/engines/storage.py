"""The texts of an audit in a file, so that one that was interrupted goes on."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from otspec.auditing.engines.engine import Text
from otspec.errors import DataError
from otspec.locking import Lock
from otspec.writing import named

Key = tuple[Any, ...]


class Texts:
    """Texts as they were drawn: a header, then a line for each request, in JSON.

    Parameters
    ----------
    path : Path, optional
        The file; without one, texts are held nowhere.
    header : mapping
        All that the texts depend on.

    Raises
    ------
    DataError
        If the file has another header, or is none of this kind, another process holds it, or there is no such folder.
    """

    def __init__(self, path: Path | None, header: Mapping[str, Any]) -> None:
        self._path, self._found = path, dict[Key, list[Text]]()
        if path is not None and not path.parent.is_dir():
            raise DataError(f"there is no folder {path.parent} for the texts; make it, or name another file")
        self._lock = None if path is None else Lock.of_file(path)
        if path is None:
            return
        try:
            self._open(path, json.loads(json.dumps(header)))
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Texts:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def get(self, key: Key, make: Callable[[], list[Text]]) -> list[Text]:
        """The texts of a request, known by its key, from the file or drawn and added to it."""
        if (known := self._found.get(key)) is not None:
            return known
        drawn = make()
        if self._path is not None:
            line = {"request": key, "texts": drawn}
            with named(self._path), self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line, ensure_ascii=True) + "\n")
        self._found[key] = drawn
        return drawn

    def close(self) -> None:
        """Let others have the file."""
        if self._lock is not None:
            self._lock.release()

    def _open(self, path: Path, header: dict[str, Any]) -> None:
        content = path.read_bytes() if path.exists() else b""
        whole = content[: content.rfind(b"\n") + 1]  # an interrupted line is drawn again
        head = json.dumps(header).encode() + b"\n"
        if head.startswith(content):
            with named(path), path.open("wb") as file:
                file.write(head)
            return
        try:
            first, *lines = [json.loads(line) for line in whole.splitlines()]
            if not isinstance(first, dict):
                raise TypeError("no header")
            for line in lines:
                self._found[tuple(line["request"])] = [_text(*fields) for fields in line["texts"]]
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"{path} is no file of texts of an audit ({error}); name another") from error
        if first != header:
            keys = sorted(key for key in {*header, *first} if first.get(key) != header.get(key))
            raise DataError(
                f"{path} has the texts of another audit, with other {', '.join(keys)}; name another file, or remove it"
            )
        if len(whole) < len(content):
            with named(path), path.open("r+b") as file:
                file.truncate(len(whole))


def _text(tokens: list[int], text: str, logprobs: list[float] | None, ended: str) -> Text:
    return Text(tuple(tokens), text, None if logprobs is None else tuple(logprobs), ended)
