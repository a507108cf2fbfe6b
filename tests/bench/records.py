"""Runs as they lie on disk: whole identities and records of each benchmark, of which tests change some fields."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from otspec.bench import Cell
from otspec.bench.records import Record
from otspec.bench.stored import StoredRun

REQUEST: dict[str, Any] = {"command": "otspec bench", "date": "2026"}
GRID = {"data": ["d"], "k": [4], "n": [2], "solver": ["lp"]}
COMMON = {"schema": 1, "seed": 0, "processor": "P"}
CODE = {"python": "3.12", "versions": {"numpy": "2.4.5"}, "code": "x"}
HEADER: dict[str, Any] = {"schema": 1, "format": "recorded trees", "vocab": 9, "paths": 2, "depth": 2}
HEADER |= {"stored": "float32", "top_k": None, "positions": 6, "prompts": {"count": 6}}
"""Of recorded trees, no more than has to be there."""


def recorded_trees(sha256: str = "1", **about: Any) -> dict[str, Any]:
    """What run.json says of a file of trees, whose header says more."""
    return {"file": "d.safetensors", "bytes": 9, "sha256": sha256, "about": HEADER | about, "measured_by": CODE}


IDENTITIES: dict[str, dict[str, Any]] = {
    "solvers": COMMON
    | CODE
    | {"data": {"d": {"sha256": "1"}}, "scheme": "iid", "temperature": 1.0, "top_p": None, "jobs": 1},
    "paths": COMMON | {"data": {"d": recorded_trees()}, "budget_s": 9.0},
    "decoding": COMMON
    | CODE
    | {"target": ["t", "1"], "draft": ["d", "2"], "dtype": "torch.float32", "prompts": "x", "tasks": None}
    | {"top_k": None, "top_p": None, "max_new_tokens": 8, "budget_s": 9.0, "device": "cpu", "threads": 1},
}
"""What run.json says, but for what was asked."""

RECORDS: dict[str, dict[str, Any]] = {
    "solvers": {"data": "d", "k": 4, "n": 2, "solver": "lp", "position": 0, "solved": True, "status": "OPTIMAL"}
    | {"message": "", "wall_s": 0.5, "optimum": 0.75, "acceptance": 0.75, "gap": 0.0, "deviation": 0.0, "cells": 9}
    | {"budget_s": 5.0, "code": "", "machine": "P"},
    "paths": {"data": "d", "rule": "interval", "paths": 2, "depth": 2, "position": 0, "prompt": 0, "lossless": True}
    | {"accepted": 0.75, "reach": [0.5, 0.25], "wall_s": 0.5, "spent_s": 0.5, "message": "", "machine": "P"},
    "decoding": {"method": "vanilla", "rule": "", "paths": 0, "depth": 0, "temperature": 1.0, "drafter": ""}
    | {"trial": False, "prompt": 0, "repeat": 0, "seed": 1, "machine": "P", "lossless": True, "message": ""}
    | {"tokens": 8, "sequence_steps": 8, "target_calls": 8, "committed": 0, "drafted_nodes": 0}
    | {"offered": [], "accepted": []}
    | {"seconds": {"prompt": 0.1, "draft": 0.0, "target": 0.5, "verification": 0.1, "rest": 0.1}},
}
"""One of each."""


def identity_of(benchmark: str, **changes: Any) -> dict[str, Any]:
    """What run.json says, with changes."""
    return {"benchmark": benchmark, **IDENTITIES[benchmark], **changes}


def record_of(benchmark: str, **changes: Any) -> dict[str, Any]:
    """A record, with changes."""
    return RECORDS[benchmark] | changes


def request_of(benchmark: str, **changes: Any) -> dict[str, Any]:
    """An entry of `runs`, with changes."""
    return REQUEST | ({"positions": 6, "cells": GRID} if benchmark == "solvers" else {}) | changes


def solved(cell: Cell, position: int, wall_s: float = 0.5, **changes: Any) -> Record:
    """A position of a cell that was solved, unless changes say otherwise."""
    return record_of("solvers", **{**asdict(cell), "position": position, "wall_s": wall_s, **changes})


def unsolved(cell: Cell, position: int, status: str, wall_s: float = 0.5, **changes: Any) -> Record:
    """A position of a cell without a plan."""
    none = {"status": status, "solved": False, "acceptance": None, "gap": None, "deviation": None, "message": "why"}
    return solved(cell, position, wall_s, **{**none, **changes})


def stored(
    name: str | Path, benchmark: str, records: list[Record], request: dict[str, Any] | None = None, **identity: Any
) -> StoredRun:
    """A run that was read; `request` and `identity` change some fields."""
    runs = [request_of(benchmark, **(request or {}))]
    return StoredRun(Path(name), identity_of(benchmark, **identity), runs, records)
