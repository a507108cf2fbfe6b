"""Tables of [thomas2025global], in published.toml: solve times (1 and 3), acceptance in a time limit (2), decoding (4).

Times are mean milliseconds per token, and a `+` marks the paper's lower bounds.  Its networks and programs have a
column per tuple; ours have one per draft set, which is exact and smaller.  Processors differ too: compare the trends,
not the digits.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import NamedTuple


class PublishedTime(NamedTuple):
    """One cell of the paper's tables."""

    ms: float
    lower_bound: bool = False
    success: float | None = None
    """Share of positions solved, where the paper gives one."""

    def __str__(self) -> str:
        success = "" if self.success is None else f" ({self.success:.0%})"
        return f"{self.ms:,.6g}{'+' if self.lower_bound else ''}{success}"


_TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))

METHODS: tuple[str, ...] = tuple(_TABLES["methods"])
"""The paper's columns; G.R. is global resolution at the two thresholds tau."""

OURS = {
    "lp": "General LP",
    "max_flow": "Max-flow",
    "slackness": "Opt. max-flow",
    "global_resolution": "G.R. 1e-3",
    "global_resolution:tau=1e-4": "G.R. 1e-4",
}
"""The paper's column that each of our solvers answers to."""

OURS_ALONE = ("interval",)
"""Solvers to show beside the paper's, though it has none like them."""


def _read(printed: str) -> PublishedTime | None:
    if printed == "-":
        return None
    found = re.fullmatch(r"([\d.]+)(\+?)(?: \(([\d.]+)%\))?", printed)
    assert found, f"{printed!r} is no time"
    ms, bound, percent = found.groups()
    return PublishedTime(float(ms), bool(bound), None if percent is None else float(f"{percent}e-2"))


def _by_setting(rows: dict[str, list[str]]) -> dict[tuple[int, int], dict[str, PublishedTime | None]]:
    found = {}
    for setting, cells in rows.items():
        k, n = map(int, setting.split())
        found[k, n] = dict(zip(METHODS, map(_read, cells), strict=True))
    return found


PUBLISHED: dict[str, tuple[str, dict[tuple[int, int], dict[str, PublishedTime | None]]]] = {
    profile: (table["title"], _by_setting(table["rows"])) for profile, table in _TABLES["times"].items()
}
"""Title and rows of the table that each calibrated profile answers to; None where the paper ran out of memory."""

ACCEPTANCE: dict[str, dict[int, dict[str, float]]] = {
    profile: {int(limit_ms): dict(zip(_TABLES["limited"], row, strict=True)) for limit_ms, row in rows.items()}
    for profile, rows in _TABLES["acceptance"].items()
}
"""Table 2: the best acceptance, in percent, by profile, limit in milliseconds per token, and method."""

BLOCK_EFFICIENCY = {int(paths): tokens for paths, tokens in _TABLES["block_efficiency"]["paths"].items()}
"""Table 4, by K: tokens per target call of global resolution token-wise, Gemma-2 27B/2B, drafts of top-k 100."""
BLOCK_EFFICIENCY_DEPTH: int = _TABLES["block_efficiency"]["depth"]
"""L there."""
