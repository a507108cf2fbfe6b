"""Runs on disk, as others left them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from otspec.bench.kinds import kind_of
from otspec.bench.records import LOG, Record, key_of, read_about, read_lines
from otspec.bench.schema import check_run, schema_of
from otspec.errors import DataError


@dataclass(frozen=True, eq=False)
class StoredRun:
    """What a folder holds."""

    path: Path
    identity: Mapping[str, Any]
    runs: list[dict[str, Any]]
    """What was asked for, and when."""
    records: list[Record]
    """One for everything measured."""

    @property
    def kind(self) -> str:
        """One of `otspec.bench.kinds.KINDS`."""
        return str(self.identity["benchmark"])


def read_run(path: Path) -> StoredRun:
    """Read the folder of a run, which may be under way: whole lines count.

    Raises
    ------
    DataError
        If there is no run, or a damaged one, or one of a version that did not say what it is.
    """
    if not (path / "run.json").is_file():
        raise DataError(f"there is no run in {path}; name folders that `otspec bench`, its decode or its paths wrote")
    identity, runs = read_about(path)
    if (schema := schema_of(identity)) is None:
        raise DataError(f"{path} holds a run of another version of otspec; measure anew, in a new folder")
    check_run(schema, identity, runs, path / "run.json")
    lines, _ = read_lines(path / LOG, schema)
    kind = kind_of(identity["benchmark"])
    for record in lines:
        kind.cell_of(record)  # refuses what this version does not know
    return StoredRun(path, identity, runs, list({key_of(record): record for record in lines}.values()))
