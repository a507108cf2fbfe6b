"""Results on disk: a folder that one benchmark owns, readable while it runs and resumable after an interrupt."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from otspec.bench.cells import Cell
from otspec.errors import DataError
from otspec.extras import require

Record = dict[str, Any]

COLUMNS = {
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
}
"""Fields of a record.

`solved` says whether the solver answered for the drafted tuple as it is meant to.  `status` is that of the full plan,
or BUDGET where the cell's time ended first (`wall_s` is then a lower bound), or DIED where the measuring process did;
the figures are null then.
"""


class RecordFolder:
    """The folder of one run: run.json says what it is, results.jsonl holds a record per line as they come in.

    Parameters
    ----------
    path : Path
        A new or empty folder, or one of an earlier, perhaps interrupted, run with the same identity.
    identity : mapping
        What makes records comparable: data, seed, budget, machine, versions.  More cells and positions may be added
        to a run; another identity is another run.

    Raises
    ------
    DataError
        If the folder holds another run, or other files, or a damaged one.
    """

    def __init__(self, path: Path, identity: Mapping[str, object]) -> None:
        self.path = path
        self._lock = threading.Lock()
        about = path / "run.json"
        identity = json.loads(json.dumps(identity))
        if about.is_file():
            _check_identity(about, identity)
        elif path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise DataError(f"{path} holds something that is no benchmark run; give --out a new or empty folder")
        path.mkdir(parents=True, exist_ok=True)
        about.write_text(json.dumps(identity, indent=2) + "\n")
        self.records = _read_lines(self._log_path)
        self._log = self._log_path.open("a", encoding="utf-8")

    @property
    def _log_path(self) -> Path:
        return self.path / "results.jsonl"

    def append(self, record: Record) -> None:
        """Add a record, on disk before this returns; threads may share the folder."""
        with self._lock:
            self.records.append(record)
            self._log.write(json.dumps(record) + "\n")
            self._log.flush()

    def close(self) -> None:
        """Close the log."""
        self._log.close()


class RunFolder(RecordFolder):
    """The folder of a run whose records are of solvers' cells and positions."""

    def done(self, cell: Cell) -> set[int]:
        """Positions of the cell that have a record."""
        return {record["position"] for record in self.of(cell)}

    def of(self, cell: Cell) -> list[Record]:
        """The records of a cell, by position."""
        mine = [r for r in self.records if (r["k"], r["n"], r["solver"]) == (cell.k, cell.n, cell.solver)]
        return sorted(mine, key=lambda record: record["position"])

    @property
    def cells(self) -> list[Cell]:
        """Every cell with a record, small settings first, solvers by name."""
        cells = dict.fromkeys(Cell(record["k"], record["n"], record["solver"]) for record in self.records)
        return sorted(cells, key=lambda cell: (cell.size, cell.solver))

    def spent_s(self, cell: Cell) -> float:
        """Solving time that the cell has used of its budget."""
        return sum(record["wall_s"] for record in self.of(cell))

    def close(self) -> None:
        """Write results.parquet, whole or not at all, and close the log."""
        super().close()
        pa: Any = require("pyarrow")
        schema = pa.schema([(name, getattr(pa, kind)()) for name, kind in COLUMNS.items()])
        scratch = self.path / "results.parquet.part"
        require("pyarrow.parquet").write_table(pa.Table.from_pylist(self.records, schema=schema), scratch)
        os.replace(scratch, self.path / "results.parquet")


def _check_identity(about: Path, identity: Mapping[str, object]) -> None:
    try:
        stored = json.loads(about.read_text())
    except json.JSONDecodeError as error:
        raise DataError(f"{about} is damaged ({error}); give --out a new folder") from error
    differing = [key for key in {*stored, *identity} if stored.get(key) != identity.get(key)]
    if differing:
        key = min(differing)
        raise DataError(
            f"{about.parent} holds another run: its {key} is {stored.get(key)}, yours {identity.get(key)}; "
            "give --out a new folder"
        )


def _read_lines(path: Path) -> list[Record]:
    """Records of an earlier run; a last line that an interrupt cut short is dropped from the file."""
    if not path.exists():
        return []
    content = path.read_bytes()
    whole = content.rfind(b"\n") + 1
    if whole < len(content):
        os.truncate(path, whole)
    records = []
    for number, line in enumerate(content[:whole].splitlines(), start=1):
        try:
            records.append(json.loads(line))
        except json.JSONDecodeError as error:
            raise DataError(f"{path}, line {number} is damaged ({error}); give --out a new folder") from error
    return records
