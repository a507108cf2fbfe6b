"""Every exact solver in every spelling worth a test."""

from __future__ import annotations

from otspec import available
from otspec.catalogue import SolverInfo
from otspec.solvers.max_flow.engines import ENGINES


def exact_spellings() -> list[str]:
    """Names and variants of the exact solvers, those with a flow engine once per engine; installed or not."""
    return sorted({spelling for info in available() if info.exact for spelling in _spellings(info)})


def _spellings(info: SolverInfo) -> list[str]:
    if "engine" in info.settings:
        return [f"{info.name}:engine={engine}" for engine in ENGINES]
    return [info.name, *info.variants]
