"""Runs on disk, as others left them."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from otspec.bench.records import LOG, MACHINE, Difference, Record, differences, key_of, read_about, read_lines, shown
from otspec.bench.report import Run, kind_of
from otspec.bench.schema import check_run, schema_of
from otspec.errors import DataError

DATA = "data"
"""The field of an identity that is by name: runs that have no name in common agree in it."""


@dataclass(frozen=True, eq=False)
class StoredRun:
    """What a folder holds, or several."""

    path: Path
    """Of the folder; of several, that of the first."""
    identity: Mapping[str, Any]
    runs: list[dict[str, Any]]
    """What was requested, and when."""
    records: list[Record]
    """One for everything measured."""

    @property
    def kind(self) -> str:
        """One of `otspec.bench.report.KINDS`."""
        return str(self.identity["benchmark"])


def read_run(path: Path) -> StoredRun:
    """Read the folder of a run, which may be under way: whole lines count.

    Raises
    ------
    DataError
        If there is no run, or a damaged one, or one of a version that did not record what it is.
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


def joined(parts: Sequence[Run]) -> StoredRun:
    """Several runs as one: parts of a run, such as some of its cells, or runs on other data.

    Of what several have measured the record of the first of them stands, unless its time ran out.

    Raises
    ------
    DataError
        If they differ in more than the machine, and data that one has alone.
    """
    first = parts[0]
    identity = dict(first.identity)
    records: dict[Hashable, Record] = {key_of(record): record for record in first.records}
    for part in parts[1:]:
        for name, one, other in _conflicts(identity, part.identity):
            raise DataError(
                f"{first.path} and {part.path} are not of one run: {name} is {shown(one)} in the first, "
                f"{shown(other)} in the second; name what was measured with the same settings and seed, and, where "
                "data have one name, with the same data, code and versions"
            )
        if DATA in identity:
            identity[DATA] = {**identity[DATA], **part.identity[DATA]}
        for record in part.records:
            if records.get(key_of(record), {"status": "BUDGET"}).get("status") == "BUDGET":
                records[key_of(record)] = record
    several = {name: list(dict.fromkeys(part.identity.get(name) for part in parts)) for name in MACHINE}
    identity |= {name: values for name, values in several.items() if len(values) > 1}
    return StoredRun(first.path, identity, [dict(run) for part in parts for run in part.runs], list(records.values()))


def _conflicts(one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[Difference]:
    """Differences for which two runs cannot be read as one: all but the machine, and data that one has alone."""
    mine, theirs = dict(one), dict(other)
    if DATA in one and DATA in other:
        common = one[DATA].keys() & other[DATA].keys()
        mine[DATA], theirs[DATA] = ({name: run[DATA][name] for name in common} for run in (one, other))
    return (found for found in differences(mine, theirs) if not found.of_machine)
