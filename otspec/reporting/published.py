"""What [thomas2025global] prints: solve times (Tables 1 and 3), acceptance in a time limit (2) and decoding (4).

Times are mean milliseconds per token, and a `+` marks the paper's lower bounds.  Its networks and programs have a
column per tuple; ours have one per draft set, which is exact and smaller.  Processors differ too: compare the trends,
not the digits.
"""

from __future__ import annotations

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


METHODS = ("General LP", "Max-flow", "Opt. max-flow", "G.R. 1e-3", "G.R. 1e-4")
"""The paper's columns; G.R. is global resolution at the two thresholds tau."""

_METHODS_2 = ("General LP", "Max-flow", "G.R. 1e-3", "G.R. 1e-4")

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

_OUT_OF_MEMORY = None

_TABLE_1 = {
    (10, 2): ("4.07", "2.45", "2.51", ("5.27", 0.98), ("7.62", 0.93)),
    (10, 3): ("30.14", "3.80", "3.88", ("17.35", 0.98), ("23.95", 0.87)),
    (10, 4): ("4000+", "74.21", "74.37", ("40.30", 0.97), ("54.84", 0.86)),
    (10, 5): ("400000+", "10000+", "10000+", ("70.75", 0.96), ("94.79", 0.85)),
    (100, 2): ("4000+", "72.28", "63.03", ("23.92", 0.38), ("25.47", 0.23)),
    (100, 3): ("400000+", "200000+", "200000+", ("30.52", 0.23), ("38.44", 0.14)),
    (1000, 2): (_OUT_OF_MEMORY, "400000+", "400000+", ("34.94", 0.31), ("47.46", 0.15)),
}

_TABLE_3 = {
    (10, 2): ("7.85", "3.18", "3.26", ("7.46", 0.9887), ("10.63", 0.9275)),
    (10, 3): ("59.43", "5.05", "5.10", ("24.64", 0.9854), ("33.95", 0.8806)),
    (10, 4): ("4000+", "95.73", "94.21", ("57.21", 0.9831), ("77.42", 0.8621)),
    (10, 5): ("400000+", "10000+", "10000+", ("98.10", 0.9777), ("130.68", 0.8536)),
    (100, 2): ("4000+", "95.13", "82.94", ("49.58", 0.3664), ("43.49", 0.1858)),
    (100, 3): ("400000+", "200000+", "200000+", ("107.65", 0.1953), ("32.81", 0.0818)),
    (1000, 2): (_OUT_OF_MEMORY, "400000+", "400000+", ("60.05", 0.275), ("141.25", 0.0804)),
}

_Printed = str | tuple[str, float] | None


def _read(printed: _Printed) -> PublishedTime | None:
    if printed is None:
        return None
    text, success = printed if isinstance(printed, tuple) else (printed, None)
    return PublishedTime(float(text.rstrip("+")), text.endswith("+"), success)


PUBLISHED: dict[str, tuple[str, dict[tuple[int, int], dict[str, PublishedTime | None]]]] = {
    profile: (
        title,
        {setting: dict(zip(METHODS, map(_read, row), strict=True)) for setting, row in table.items()},
    )
    for profile, title, table in (
        ("llama3", "Table 1, Llama-3 70B/8B", _TABLE_1),
        ("gemma2", "Table 3, Gemma-2 27B/2B", _TABLE_3),
    )
}
"""Title and rows of the table that each calibrated profile answers to; None where the paper ran out of memory."""

ACCEPTANCE: dict[str, dict[int, dict[str, float]]] = {
    profile: {limit_ms: dict(zip(_METHODS_2, row, strict=True)) for limit_ms, row in rows.items()}
    for profile, rows in {
        "llama3": {10: (82.53, 83.94, 85.65, 85.10), 100: (83.94, 89.01, 90.04, 89.46)},
        "gemma2": {10: (79.03, 80.69, 81.90, 81.35), 100: (80.69, 85.83, 86.60, 86.07)},
    }.items()
}
"""Table 2: the best acceptance, in percent, by profile, limit in milliseconds per token, and method."""

BLOCK_EFFICIENCY = {2: 2.23, 3: 2.54, 4: 2.65}
"""Table 4, by K: tokens per target call of global resolution token-wise, Gemma-2 27B/2B, drafts of top-k 100."""
BLOCK_EFFICIENCY_DEPTH = 8
"""L there."""
