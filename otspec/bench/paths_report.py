"""Tables of the benchmark of recorded trees."""

from __future__ import annotations

import math
from collections.abc import Sequence

from otspec.bench.intervals import FEWEST
from otspec.bench.paths import BOUND
from otspec.bench.paths_summary import PathsSummary
from otspec.reporting.tables import TextTable

EXACT = (
    "Mean number of drafted tokens that are accepted: exact given each tree, over the random numbers of the rule, and "
    "a mean over the same trees for all rules. What errs is the choice of the trees: after it the standard error "
    f"across prompts, in brackets 95 % intervals, of {FEWEST} prompts or more, by the paired bootstrap over prompts, "
    "bias-corrected and accelerated."
)


def accepted_table(summaries: Sequence[PathsSummary], title: str, reference: str) -> TextTable:
    """What every rule accepts of the trees of one file."""
    over = f"over {reference}"
    rows: list[tuple[str, ...]] = [
        (
            label(one),
            "-" if math.isnan(one.accepted.value) else f"{one.accepted.value:.3f} ± {one.error:.3f}",
            one.accepted.shown(".3f").partition(" ")[2].strip() or "-",
            one.gain.shown("+.3f"),
            one.of_bound.shown(".3f"),
            "-" if math.isnan(one.median_ms) else f"{one.median_ms:.3g}",
            str(one.trees),
        )
        for one in summaries
    ]
    note = (
        f"{EXACT} A call of the target gives one token more. {over.capitalize()}: the difference, and of the bound: "
        "the ratio, both on the trees that both have. The bound is what no lossless rule exceeds in the mean over "
        "drafts (docs/paths.md); of few trees a rule may lie above it. ms: median time of one verification. A lossy "
        "rule changes the law of the text."
    )
    header = ("rule", "accepted", "95 % interval", over, "of the bound", "ms", "trees")
    return TextTable(title, header, rows, note, labels=1, details=frozenset(("95 % interval", "ms")))


def reach_table(summaries: Sequence[PathsSummary], title: str) -> TextTable | None:
    """How deep every rule gets on the trees of one file."""
    shown = [one for one in summaries if one.reach]
    if not shown:
        return None
    rows = [(label(one), *(f"{share:.3f}" for share in one.reach)) for one in shown]
    header = ("rule", *(f">= {depth}" for depth in range(1, shown[0].cell.depth + 1)))
    return TextTable(title, header, rows, "P(so many drafted tokens or more are accepted), mean over trees.", labels=1)


def failed_table(summaries: Sequence[PathsSummary]) -> TextTable | None:
    """Rules that got no more trees since their solver failed, or None."""
    rows: list[tuple[str, ...]] = [
        (one.cell.data, label(one), str(one.trees), one.message) for one in summaries if one.message
    ]
    return TextTable("Stopped", ("data", "rule", "trees before", "why"), rows, "", labels=4) if rows else None


def label(summary: PathsSummary) -> str:
    """What a cell is called in tables."""
    if summary.cell.rule == BOUND:
        return "bound on lossless rules"
    return summary.cell.rule + ("" if summary.lossless else " (lossy)")
