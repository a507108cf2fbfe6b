"""Runs on disk, as others left them: read, and set beside each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from otspec.bench.kinds import kind_of
from otspec.bench.records import LOG, MACHINE, Record, key_of, read_about, read_lines
from otspec.bench.schema import check_identity, schema_of
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
    check_identity(schema, identity, path / "run.json")
    lines, _ = read_lines(path / LOG, schema)
    kind = kind_of(identity["benchmark"])
    for record in lines:
        kind.cell_of(record)  # refuses what this version does not know
    return StoredRun(path, identity, runs, list({key_of(record): record for record in lines}.values()))


class Difference(NamedTuple):
    """A field in which two identities differ."""

    name: str
    """Dotted, where it is a field of a field."""
    one: Any
    other: Any

    @property
    def of_machine(self) -> bool:
        """Whether it says where it was measured, and not what."""
        return self.name in MACHINE


def differences(one: Mapping[str, Any], other: Mapping[str, Any], within: str = "") -> Iterator[Difference]:
    """All fields in which two identities differ, by name; what one of them lacks is None there."""
    for name in sorted({*one, *other}):
        mine, theirs = one.get(name), other.get(name)
        if isinstance(mine, Mapping) and isinstance(theirs, Mapping):
            yield from differences(mine, theirs, f"{within}{name}.")
        elif mine != theirs:
            yield Difference(within + name, mine, theirs)
