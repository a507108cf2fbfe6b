"""Results on disk: a folder that one benchmark owns, readable while it runs and resumable after an interrupt."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from otspec.bench.schema import Schema, check_records, check_requests, schema_of
from otspec.data.recorded import SCHEMA, of_schema
from otspec.errors import DataError
from otspec.locking import NAME as LOCK
from otspec.locking import Lock
from otspec.writing import named, write_whole

Record = dict[str, Any]
Cell = TypeVar("Cell", bound=Hashable)
Place = TypeVar("Place", bound=Hashable)
LOG, TABLE = "results.jsonl", "results.parquet"
"""Files of the records: a line for each, and the same as a table."""

KEY = (
    *("data", "k", "n", "solver", "position"),
    *("method", "rule", "paths", "depth", "temperature", "drafter", "draft_top_k", "draft_top_p", "draft_temperature"),
    *("draft_confidence", "pace", "schedule", "confidence", "batch", "trial", "prompt", "repeat"),
)
"""What a record may be a record of; what differs in none of these is the same measurement, and the later one stands."""

MACHINE = ("processor", "device", "threads", "jobs")
"""Fields of an identity for where it was measured: runs that differ in these alone can be read as one, and what
they differ in is then a list."""


class RecordFolder:
    """The folder of one run: run.json describes it, results.jsonl holds a record per line as they come in.

    Parameters
    ----------
    path : Path
        A new or empty folder, or one of an earlier, perhaps interrupted, run with the same identity.
    identity : mapping
        What makes records comparable: data, seed, machine, versions, code.  More cells and positions may be added to a
        run; another identity is another run.
        Where the schema of its benchmark has a table, the records are also written as one, results.parquet, when the
        folder is closed.

    Raises
    ------
    DataError
        If the folder holds another run, or other files, or a damaged one, or another process works in it.
    """

    def __init__(self, path: Path, identity: Mapping[str, object]) -> None:
        self.path = path
        self._adding = threading.Lock()
        wanted = as_stored(identity)
        about = path / "run.json"
        if not about.is_file() and path.exists() and (not path.is_dir() or _others(path)):
            raise DataError(f"{path} holds something that is not a benchmark run; give --out a new or empty folder")
        path.mkdir(parents=True, exist_ok=True)
        self._lock = Lock.of_folder(path)
        try:
            self.runs: list[dict[str, Any]] = []
            self.identity = wanted
            if about.is_file():
                self.identity, self.runs = read_about(path)
                _check_same(path, self.identity, wanted)
            self._write_about()
            records, whole = read_lines(self._log_path, schema_of(self.identity))
            self._records = {key_of(record): record for record in records}
            self.added = 0
            self._superseded = len(self._records) < len(records)
            self._log = self._log_path.open("a", encoding="utf-8")
            self._log.truncate(whole)  # a last line that an interrupt cut short
        except BaseException:
            self._lock.release()
            raise

    added: int
    """Records measured since it was opened."""

    @property
    def records(self) -> list[Record]:
        """One for everything measured, in the order in which that was first measured."""
        return list(self._records.values())

    @property
    def _log_path(self) -> Path:
        return self.path / LOG

    def append(self, record: Record) -> None:
        """Add a record, on disk before this returns; it replaces one of the same.  Threads may share the folder."""
        with self._adding:
            self.added += 1
            self._superseded |= key_of(record) in self._records
            self._records[key_of(record)] = record
            with named(self._log_path):
                self._log.write(json.dumps(record) + "\n")
                self._log.flush()

    def forget(self, which: Callable[[Record], bool]) -> int:
        """Drop the records for which `which` is true, to be measured anew; return how many."""
        with self._adding:
            others = {key: record for key, record in self._records.items() if not which(record)}
            count = len(self._records) - len(others)
            if count:
                self._records = others
                self._log.close()
                self._rewrite()
                self._log = self._log_path.open("a", encoding="utf-8")
        return count

    def begin(self, run: Mapping[str, object]) -> None:
        """Note in run.json what is measured now, and by what command."""
        self.runs.append(json.loads(json.dumps(run)))
        self._write_about()

    def close(self) -> None:
        """Write the table, close the log, without lines that later ones have replaced, and let other processes in."""
        try:
            if (schema := schema_of(self.identity)) is not None and schema.table:
                from otspec.bench.frame import write_frame  # which a run that is only opened does not need

                write_frame(self.records, schema, self.path / TABLE)
        finally:
            self._log.close()
            if self._superseded:
                self._rewrite()
            self._lock.release()

    def _rewrite(self) -> None:
        lines = "".join(json.dumps(record) + "\n" for record in self._records.values())
        write_whole(self._log_path, lines)
        self._superseded = False

    def _write_about(self) -> None:
        write_whole(self.path / "run.json", json.dumps({**self.identity, "runs": self.runs}, indent=2) + "\n")


class Turns(Generic[Cell, Place]):
    """What cells that take turns have measured: one that failed, or has spent its time, gets no more.

    From a record, `of` has its cell and what it was measured on, None where it does not count; `seconds` what it took.
    """

    def __init__(
        self,
        folder: RecordFolder,
        budget_s: float,
        of: Callable[[Record], tuple[Cell, Place] | None],
        seconds: Callable[[Record], float],
    ) -> None:
        self._folder, self._budget_s, self._seconds = folder, budget_s, seconds
        self._held: dict[Cell, dict[Place, Record]] = {}
        for record in folder.records:
            if (found := of(record)) is not None:
                self._held.setdefault(found[0], {})[found[1]] = record

    def take(self, cell: Cell, place: Place, measure: Callable[[float], Record]) -> None:
        """Measure a cell once more, in the seconds that it has left, unless the folder has that or it gets no more."""
        held = self._held.setdefault(cell, {})
        left_s = self._budget_s - sum(map(self._seconds, held.values()))
        if place in held or left_s <= 0 or any(record["message"] for record in held.values()):
            return
        held[place] = measure(left_s)
        self._folder.append(held[place])


def as_stored(identity: Mapping[str, object]) -> dict[str, Any]:
    """An identity as run.json has it."""
    stored: dict[str, Any] = json.loads(json.dumps({"schema": SCHEMA, **identity}))
    return stored


def key_of(record: Record) -> Hashable:
    """What a record is a record of."""
    return tuple(record.get(name) for name in KEY)


def read_about(folder: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The identity of a run and what was measured into its folder, from run.json.

    Raises
    ------
    DataError
        If that file is damaged, or is of another version of the schema, or not as that of its benchmark has it.
    """
    about = folder / "run.json"
    try:
        stored = of_schema(about, dict(_json(about.read_text(encoding="utf-8"))))
        runs = [dict(run) for run in stored.pop("runs", [])]
    except (ValueError, TypeError, RecursionError) as error:
        raise DataError(f"{about} is damaged ({error}); measure anew, in a new folder") from error
    check_requests(schema_of(stored), runs, about)
    return stored, runs


def read_lines(path: Path, schema: Schema | None) -> tuple[list[Record], int]:
    """Records of a run, and the bytes that they take: a last line that an interrupt cut short is left out.

    Parameters
    ----------
    path : Path
        The file of a record per line.
    schema : Schema, optional
        Of the benchmark that they are of.

    Raises
    ------
    DataError
        If another line is damaged, or is not as the schema has it.
    """
    if not path.exists():
        return [], 0
    content = path.read_bytes()
    whole = content.rfind(b"\n") + 1
    records: list[Record] = []
    for number, line in enumerate(content[:whole].splitlines(), start=1):
        try:
            records.append(dict(_json(line.decode())))
        except (ValueError, TypeError, RecursionError) as error:
            raise DataError(f"{path}, line {number} is damaged ({error}); measure anew, in a new folder") from error
    check_records(schema, records, path)
    return records, whole


def _json(text: str) -> Any:
    """The value of a text; half a surrogate pair, which JSON can spell and no file can hold, is a ValueError."""
    value = json.loads(text)
    if "\\u" in text:
        json.dumps(value, ensure_ascii=False).encode()
    return value


def _others(path: Path) -> Sequence[Path]:
    """What is in a folder beside a lock that an interrupt may have left."""
    return [entry for entry in path.iterdir() if entry.name != LOCK]


def _check_same(folder: Path, stored: Mapping[str, Any], identity: Mapping[str, Any]) -> None:
    """Refuse the folder of another identity."""
    for name, there, mine in differences(stored, identity):
        values = f"{shown(there)}, yours {shown(mine)}"
        raise DataError(f"{folder} holds another run: its {name} is {values}; give --out a new folder")


class Difference(NamedTuple):
    """A field in which two identities differ."""

    name: str
    """Dotted, where it is a field of a field."""
    one: Any
    other: Any

    @property
    def of_machine(self) -> bool:
        """Whether it describes where it was measured, and not what."""
        return self.name in MACHINE


def differences(one: Mapping[str, Any], other: Mapping[str, Any], within: str = "") -> Iterator[Difference]:
    """All fields in which two identities differ, by name; what one of them lacks is None there."""
    for name in sorted({*one, *other}):
        mine, theirs = one.get(name), other.get(name)
        if isinstance(mine, Mapping) and isinstance(theirs, Mapping):
            yield from differences(mine, theirs, f"{within}{name}.")
        elif mine != theirs:
            yield Difference(within + name, mine, theirs)


def shown(value: object) -> str:
    """A field of an identity in a message: a long one is cut short."""
    text = str(value)
    return text if len(text) <= LONG else f"{text[: LONG - 3]}..."


LONG = 80
"""Characters of a field that a message shows."""
