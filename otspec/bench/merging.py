"""Folders of one run, measured in parts, or of runs of one question on other data, joined into one folder."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from otspec.bench.records import KEY, MACHINE, Difference, Record, RecordFolder, differences, key_of, shown
from otspec.bench.shards import Shard
from otspec.bench.stored import StoredRun, read_run
from otspec.errors import DataError

DATA = "data"
"""The field of an identity that is by name: runs that have no name in common agree in it."""


@dataclass(frozen=True)
class Merged:
    """What came of it."""

    folder: RecordFolder
    """Open: whoever merged closes it."""
    rows: Mapping[Path, int]
    """Records of each part."""
    doubled: int
    """Records that several parts had: one of them stands."""
    machines: Mapping[str, Any]
    """Fields of the machine in which parts differ, and what there was."""

    @property
    def absent(self) -> list[str]:
        """Shards of which others were merged and they were not, as in ``3/8``."""
        there = {Shard.of(run["shard"]) for run in self.folder.runs if run.get("shard")}
        if any(not run.get("shard") for run in self.folder.runs):
            return []  # a run of everything is among them
        of = {shard.count for shard in there}
        return [
            str(Shard(number, count))
            for count in sorted(of)
            for number in range(1, count + 1)
            if Shard(number, count) not in there
        ]


def merge(paths: Sequence[Path], out: Path) -> Merged:
    """Join the folders of parts of one run, or of runs on other data; what `out` holds already is one of the parts.

    The parts are read, whoever works in them, and not changed.  `out` is written whole or not at all, and in the same
    order whatever the order of the parts.  Where several have a record of the same thing, one stands whatever their
    order: a finished one before one that ran out of its budget, a larger budget before a smaller, more tokens before
    fewer; of equals, one that is chosen by a digest, as to choose by time would favour lucky times.

    Raises
    ------
    DataError
        If a folder holds no run, or runs differ in more than the machine and names of data.
    """
    parts = {path.resolve(): path for path in paths if path.resolve() != out.resolve()}
    stored = [read_run(path) for path in parts.values()]
    if (out / "run.json").is_file():
        there = read_run(out)
        folder = RecordFolder(out, there.identity)
        # Locked only now: another process may have written to it since.
        stored.append(replace(there, identity=folder.identity, runs=folder.runs, records=folder.records))
    elif not stored:
        raise DataError(f"there is no run in {out}; name the folders to merge into it")
    else:
        _joined_identity(stored)  # refused before a folder is made
        folder = RecordFolder(out, stored[0].identity)
    try:
        identity = _joined_identity(stored)
        _check_code(stored)
        found: dict[Hashable, Record] = {}
        for record in (record for part in stored for record in part.records):
            key = key_of(record)
            found[key] = max(found[key], record, key=_rank) if key in found else record
        records = sorted(found.values(), key=_place)
        folder.adopt(identity, _runs(stored), records)
    except BaseException:
        folder.close()
        raise
    rows = {part.path: len(part.records) for part in stored}
    machines = {
        name: identity[name] for name in MACHINE if len(_values(part.identity.get(name) for part in stored)) > 1
    }
    return Merged(folder, rows, sum(rows.values()) - len(records), machines)


def _joined_identity(parts: Sequence[StoredRun]) -> dict[str, Any]:
    """That of the first, with all data and all machines."""
    joined = dict(parts[0].identity)
    for part in parts[1:]:
        if next(_conflicts(joined, part.identity), None) is not None:
            _refuse(parts, part)
        if DATA in joined:
            joined[DATA] = {**joined[DATA], **part.identity[DATA]}
    several = {name: _values(part.identity.get(name) for part in parts) for name in MACHINE}
    return {**joined, **{name: values if len(values) > 1 else values[0] for name, values in several.items() if values}}


def _conflicts(one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[Difference]:
    """What keeps two runs from being joined: all in which they differ but machines, and data that one has alone."""
    mine, theirs = dict(one), dict(other)
    if DATA in one and DATA in other:
        common = one[DATA].keys() & other[DATA].keys()
        mine[DATA], theirs[DATA] = ({name: run[DATA][name] for name in common} for run in (one, other))
    return (found for found in differences(mine, theirs) if not found.of_machine)


def _refuse(parts: Sequence[StoredRun], part: StoredRun) -> None:
    """Say in what a part differs from the first that it differs from."""
    found = ((earlier.path, conflict) for earlier in parts for conflict in _conflicts(earlier.identity, part.identity))
    path, (name, mine, theirs) = next(found)
    raise DataError(
        f"{path} and {part.path} are not of one run: {name} is {shown(mine)} in the first, {shown(theirs)} in the "
        "second; merge what was measured with the same settings and seed, and, where data have one name, with the "
        "same data, code and versions"
    )


def _values(given: Iterable[Any]) -> list[Any]:
    """All that there is of a field of the machine, which is a list where runs were merged before."""
    values = {one for value in given if value is not None for one in (value if isinstance(value, list) else [value])}
    return sorted(values, key=lambda value: (isinstance(value, str), value))


def _check_code(parts: Sequence[StoredRun]) -> None:
    """Refuse records of a solver of the user's that was edited in between."""
    seen: dict[str, tuple[str, Path]] = {}
    for part in parts:
        for record in part.records:
            if "code" in record:
                code, path = seen.setdefault(record["solver"], (record["code"], part.path))
                if code != record["code"]:
                    raise DataError(
                        f"{path} and {part.path} are not of one run: the code of {record['solver']} is {code} in the "
                        f"first, {record['code']} in the second; measure it anew with --remeasure where it is older"
                    )


def _runs(parts: Sequence[StoredRun]) -> list[dict[str, Any]]:
    """All that was asked for, each thing once, in the order of the dates."""
    found = {json.dumps(run, sort_keys=True): run for part in parts for run in part.runs}
    return [found[text] for text in sorted(found, key=lambda text: (str(found[text].get("date")), text))]


def _rank(record: Record) -> tuple[Any, ...]:
    """Which of two records of the same thing stands: the larger."""
    digest = hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()
    return record.get("status") != "BUDGET", record.get("budget_s") or 0.0, record.get("tokens") or 0, digest


def _place(record: Record) -> tuple[Any, ...]:
    """Where a record stands in the merged file: of a field that it lacks, before all that have it."""
    return tuple((value is not None, value) for value in map(record.get, KEY))
