"""Records as a frame: a row for each, of which every figure is a group, a mean and an interval."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from otspec.bench.schema import Schema, columns_of
from otspec.extras import require

require("polars")  # where it is missing, the error says how to get it

import polars as pl  # noqa: E402

TYPES: Mapping[type, Any] = {str: pl.String, int: pl.Int64, float: pl.Float64, bool: pl.Boolean}


def frame_of(records: Iterable[Mapping[str, Any]], schema: Schema) -> pl.DataFrame:
    """A frame with the fields of a schema; what a record of an earlier version lacks is null."""
    return pl.from_dicts(list(records), schema={name: _type(kind) for name, kind in columns_of(schema).items()})


def by_cell(frame: pl.DataFrame, cell: Sequence[str]) -> dict[tuple[Any, ...], pl.DataFrame]:
    """The rows of every cell, in the order in which they come."""
    return frame.partition_by(cell, as_dict=True, maintain_order=True)


def write_frame(records: Iterable[Mapping[str, Any]], schema: Schema, path: Path) -> None:
    """Write records as a Parquet file, whole or not at all."""
    scratch = path.with_name(f"{path.name}.part")
    frame_of(records, schema).write_parquet(scratch)
    os.replace(scratch, path)


def standard_error(values: pl.Expr) -> pl.Expr:
    """Of the mean of the values of a group; null for fewer than two."""
    return values.std() / values.count().sqrt()


def whole_mean(values: pl.Expr) -> pl.Expr:
    """The mean of a group; null where one of its values is, or where there is none."""
    return pl.when(values.null_count() == 0).then(values.mean())


def _type(kind: Any) -> Any:
    if isinstance(kind, dict):
        return pl.Struct({name: _type(one) for name, one in kind.items()})
    return pl.List(_type(kind[0])) if isinstance(kind, list) else TYPES[kind]
