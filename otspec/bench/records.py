"""Results on disk: a folder that one benchmark owns, readable while it runs and resumable after an interrupt."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

from otspec.bench.cells import Cell
from otspec.bench.lock import NAME as LOCK
from otspec.bench.lock import FolderLock
from otspec.errors import DataError
from otspec.extras import require

Record = dict[str, Any]

COLUMNS = {
    "data": "string",
    "k": "int64",
    "n": "int64",
    "solver": "string",
    "position": "int64",
    "solved": "bool_",
    "status": "string",
    "message": "string",
    "wall_s": "float64",
    "optimum": "float64",
    "acceptance": "float64",
    "gap": "float64",
    "deviation": "float64",
    "cells": "int64",
    "budget_s": "float64",
    "code": "string",
}
"""Fields of a record.

`solved` says whether the solver answered for the drafted tuple as it is meant to.  `status` is that of the full plan,
or BUDGET where the time of its cell, `budget_s`, ended first (`wall_s` is then a lower bound), INVALID where the data
make no problem, RAISED where the solver raised what it should not, or DIED where the measuring process did; the figures
are null then.  `code` is the digest of a solver that does not come with this package.
"""

KEY = (
    *("data", "k", "n", "solver", "position"),
    *("method", "rule", "paths", "depth", "temperature", "drafter", "draft_top_k", "draft_top_p", "draft_temperature"),
    *("schedule", "confidence", "trial", "prompt", "repeat"),
)
"""What a record may be a record of; what differs in none of these is the same measurement, and the later one stands."""


class RecordFolder:
    """The folder of one run: run.json says what it is, results.jsonl holds a record per line as they come in.

    Parameters
    ----------
    path : Path
        A new or empty folder, or one of an earlier, perhaps interrupted, run with the same identity.
    identity : mapping
        What makes records comparable: data, seed, machine, versions, code.  More cells and positions may be added to a
        run; another identity is another run.

    Raises
    ------
    DataError
        If the folder holds another run, or other files, or a damaged one, or another process works in it.
    """

    def __init__(self, path: Path, identity: Mapping[str, object]) -> None:
        self.path = path
        self._adding = threading.Lock()
        identity = json.loads(json.dumps(identity))
        about = path / "run.json"
        if not about.is_file() and path.exists() and (not path.is_dir() or _others(path)):
            raise DataError(f"{path} holds something that is not a benchmark run; give --out a new or empty folder")
        path.mkdir(parents=True, exist_ok=True)
        self._lock = FolderLock(path)
        try:
            self.runs: list[dict[str, Any]] = _stored_runs(about, identity) if about.is_file() else []
            self._identity = identity
            self._write_about()
            records = _read_lines(self._log_path)
            self._records = {_key(record): record for record in records}
            self.added = 0
            self._superseded = len(self._records) < len(records)
            self._log = self._log_path.open("a", encoding="utf-8")
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
        return self.path / "results.jsonl"

    def append(self, record: Record) -> None:
        """Add a record, on disk before this returns; it replaces one of the same.  Threads may share the folder."""
        with self._adding:
            self.added += 1
            self._superseded |= _key(record) in self._records
            self._records[_key(record)] = record
            self._log.write(json.dumps(record) + "\n")
            self._log.flush()

    def forget(self, which: Callable[[Record], bool]) -> int:
        """Drop the records for which `which` is true, to be measured anew; return how many."""
        with self._adding:
            kept = {key: record for key, record in self._records.items() if not which(record)}
            count = len(self._records) - len(kept)
            if count:
                self._records = kept
                self._log.close()
                self._rewrite()
                self._log = self._log_path.open("a", encoding="utf-8")
        return count

    def begin(self, run: Mapping[str, object]) -> None:
        """Note in run.json what is measured now, and how it was asked for."""
        self.runs.append(json.loads(json.dumps(run)))
        self._write_about()

    def close(self) -> None:
        """Close the log, without lines that later ones have replaced, and let other processes in."""
        self._log.close()
        if self._superseded:
            self._rewrite()
        self._lock.release()

    def _rewrite(self) -> None:
        lines = "".join(json.dumps(record) + "\n" for record in self._records.values())
        _replace(self._log_path, lines)
        self._superseded = False

    def _write_about(self) -> None:
        _replace(self.path / "run.json", json.dumps({**self._identity, "runs": self.runs}, indent=2) + "\n")


class RunFolder(RecordFolder):
    """The folder of a run whose records are of solvers' cells and positions."""

    def of(self, cell: Cell) -> list[Record]:
        """The records of a cell, by position."""
        return sorted((r for r in self.records if cell_of(r) == cell), key=lambda record: record["position"])

    @property
    def cells(self) -> list[Cell]:
        """Every cell with a record, small settings first, solvers by name."""
        cells = dict.fromkeys(map(cell_of, self.records))
        return sorted(cells, key=lambda cell: (cell.data, cell.size, cell.solver))

    def wanted(self, cell: Cell) -> int:
        """How many positions of the cell were asked for, in this run or an earlier one."""
        asked = [run["positions"] for run in self.runs if [cell.data, cell.k, cell.n, cell.solver] in run["cells"]]
        return max(asked, default=0)

    def close(self) -> None:
        """Write results.parquet, whole or not at all, and close the log."""
        try:
            pa: Any = require("pyarrow")
            schema = pa.schema([(name, getattr(pa, kind)()) for name, kind in COLUMNS.items()])
            scratch = self.path / "results.parquet.part"
            require("pyarrow.parquet").write_table(pa.Table.from_pylist(self.records, schema=schema), scratch)
            os.replace(scratch, self.path / "results.parquet")
        finally:
            super().close()


def cell_of(record: Record) -> Cell:
    """The cell that a record is of."""
    return Cell(record["k"], record["n"], record["solver"], record["data"])


def _key(record: Record) -> Hashable:
    return tuple(record.get(name) for name in KEY)


def _others(path: Path) -> Sequence[Path]:
    """What is in a folder beside a lock that an interrupt may have left."""
    return [entry for entry in path.iterdir() if entry.name != LOCK]


def _replace(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    scratch = path.with_name(path.name + ".part")
    scratch.write_text(text, encoding="utf-8")
    os.replace(scratch, path)


def _stored_runs(about: Path, identity: Mapping[str, object]) -> list[dict[str, Any]]:
    """What was measured into the folder before; refuses the folder of another identity."""
    try:
        stored = dict(json.loads(about.read_text(encoding="utf-8")))
        runs = list(stored.pop("runs", []))
    except (ValueError, TypeError) as error:
        raise DataError(f"{about} is damaged ({error}); give --out a new folder") from error
    differing = [key for key in {*stored, *identity} if stored.get(key) != identity.get(key)]
    if differing:
        key = min(differing)
        raise DataError(
            f"{about.parent} holds another run: its {key} is {stored.get(key)}, yours {identity.get(key)}; "
            "give --out a new folder"
        )
    return runs


def _read_lines(path: Path) -> list[Record]:
    """Records of an earlier run; a last line that an interrupt cut short is dropped from the file."""
    if not path.exists():
        return []
    content = path.read_bytes()
    whole = content.rfind(b"\n") + 1
    if whole < len(content):
        os.truncate(path, whole)
    records: list[Record] = []
    for number, line in enumerate(content[:whole].splitlines(), start=1):
        try:
            records.append(dict(json.loads(line)))
        except (ValueError, TypeError) as error:
            raise DataError(f"{path}, line {number} is damaged ({error}); give --out a new folder") from error
    return records
