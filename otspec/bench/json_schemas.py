"""The schemas of recorded files and of runs as JSON Schema, for readers that are not ours.

The folder `schemas` holds them as they are published, `otspec schema NAME` writes them.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Any

from otspec.bench.fields import adapter
from otspec.bench.header import RecordingHeader
from otspec.bench.schema import SCHEMAS
from otspec.data.recorded import SCHEMA

KINDS: dict[str, tuple[str, Any]] = {
    "recording": ("The header of a recorded file of positions or trees", RecordingHeader),
    "run": ("run.json of a benchmark's folder", reduce(or_, (one.run for one in SCHEMAS.values()))),
    "result": ("A line of results.jsonl of such a folder", reduce(or_, (one.record for one in SCHEMAS.values()))),
}
"""What there is a schema of, and as which type."""


def json_schema(name: str) -> dict[str, Any]:
    """The JSON Schema of that name, one of `KINDS`."""
    title, kind = KINDS[name]
    about = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:otspec:schema:{SCHEMA}:{name}",
    }
    return about | adapter(kind).json_schema() | {"title": title}
