"""What the decoding benchmark comes to: figures per cell, tables, and a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np

from otspec.bench.decoding import DecodingCell, records_of
from otspec.bench.records import Record
from otspec.decode.metrics import Metrics
from otspec.laws import FloatArray
from otspec.reporting.plotting import pyplot
from otspec.reporting.published import BLOCK_EFFICIENCY
from otspec.reporting.tables import TextTable

VANILLA = DecodingCell("vanilla")
REFERENCE = "interval"
"""The rule that others are compared with at the same K: optimal token by token."""
STYLES = ("-", "--", "-.", ":", (0, (1, 4)), (0, (8, 3)))
FIELDS = tuple(Metrics().record())


@dataclass(frozen=True)
class DecodingSummary:
    """Figures of one cell over its prompts."""

    cell: DecodingCell
    prompts: int
    """How many it decoded, whole or in part."""
    lossless: bool
    total: Metrics
    error: float
    """Standard error of block efficiency across prompts; NaN for fewer than two."""
    gain: float
    """Block efficiency over that of `REFERENCE` at the same K, on the same prompts; NaN where there is none."""
    gain_error: float
    """Standard error of `gain`."""
    speed_up: float
    """Seconds a token of vanilla decoding on the same prompts, over those of the cell."""
    message: str
    """Why it stopped, if its solver failed."""

    @property
    def ms_per_token(self) -> dict[str, float]:
        """Milliseconds a token by phase."""
        return {phase: 1e3 * spent / max(self.total.tokens, 1) for phase, spent in self.total.seconds.items()}


def summarise(records: Sequence[Record]) -> list[DecodingSummary]:
    """A summary for every cell with a record, in the order in which they were measured."""
    cells = list(dict.fromkeys(DecodingCell(one["method"], one["rule"], one["paths"]) for one in records))
    measured = {cell: _metrics(records_of(records, cell)) for cell in cells}
    summaries = []
    for cell in cells:
        mine = measured[cell]
        other = measured.get(DecodingCell("multi-draft", REFERENCE, cell.paths), {})
        common = sorted(mine.keys() & other.keys())
        of_records = records_of(records, cell)
        summaries.append(
            DecodingSummary(
                cell=cell,
                prompts=len(mine),
                lossless=all(record["lossless"] for record in of_records),
                total=_sum(mine.values()),
                error=_error(_influence(list(mine.values()))),
                gain=_sum(mine[at] for at in common).block_efficiency
                - _sum(other[at] for at in common).block_efficiency,
                gain_error=_error(_influence([mine[at] for at in common]) - _influence([other[at] for at in common])),
                speed_up=_speed_up(mine, measured.get(VANILLA, {})),
                message=next((record["message"] for record in of_records if record["message"]), ""),
            )
        )
    return summaries


def _metrics(records: Sequence[Record]) -> dict[int, Metrics]:
    """What was decoded, by prompt."""
    return {
        record["prompt"]: Metrics(**{name: record[name] for name in FIELDS}) for record in records if record["tokens"]
    }


def _sum(metrics: Any) -> Metrics:
    return reduce(add, metrics, Metrics())


def _influence(metrics: Sequence[Metrics]) -> FloatArray:
    """How far each prompt pulls block efficiency, a ratio of sums, to first order."""
    total = _sum(metrics)
    ratio = total.block_efficiency
    mean_steps = total.sequence_steps / max(len(metrics), 1)
    return np.array([(one.tokens - ratio * one.sequence_steps) / mean_steps for one in metrics])


def _error(influence: FloatArray) -> float:
    return float(influence.std(ddof=1) / np.sqrt(influence.size)) if influence.size > 1 else float("nan")


def _speed_up(mine: Mapping[int, Metrics], vanilla: Mapping[int, Metrics]) -> float:
    common = mine.keys() & vanilla.keys()
    if not common:
        return float("nan")
    own, other = _sum(mine[at] for at in common), _sum(vanilla[at] for at in common)
    return (other.wall / other.tokens) / (own.wall / own.tokens)


def efficiency_table(summaries: Sequence[DecodingSummary], title: str) -> TextTable:
    """Block efficiency of every rule by K, with what the paper prints."""
    counts = sorted({one.cell.paths for one in summaries if one.cell.paths > 1})
    rows: list[tuple[str, ...]] = []
    for mine in _by_rule(summaries):
        at = {one.cell.paths: one for one in mine}
        row = (mine[0] if mine[0].cell.paths < 2 else at.get(count) for count in counts)
        rows.append((_label(mine[0]), *("-" if one is None else _efficiency(one) for one in row)))
    published = [BLOCK_EFFICIENCY.get(count) for count in counts]
    rows.append(("paper: global resolution", *("-" if value is None else f"{value:.2f}" for value in published)))
    note = (
        "Tokens per target call, with the standard error across prompts. The paper is Thomas and Pal, Global "
        "Resolution, arXiv:2511.15898, Table 4: Gemma-2 27B/2B, drafts of top-k 100, L = 8; another pair, so compare "
        "how it grows with K."
    )
    return TextTable(title, ("rule", *(f"K = {count}" for count in counts)), rows, note, labels=1)


def _by_rule(summaries: Sequence[DecodingSummary]) -> list[list[DecodingSummary]]:
    """Summaries that differ in K alone, by K."""
    found: dict[DecodingCell, list[DecodingSummary]] = {}
    for one in sorted(summaries, key=lambda one: one.cell.paths):
        found.setdefault(replace(one.cell, paths=min(one.cell.paths, 2)), []).append(one)
    return list(found.values())


def decoding_table(summaries: Sequence[DecodingSummary], title: str) -> TextTable:
    """All figures of every cell."""
    header = ("K", "rule", "block eff.", "over interval", "accepted to depth 1, 2, ...")
    phases = ("draft", "target", "verify", "rest")
    rows = [
        (
            str(one.cell.paths or "-"),
            _label(one),
            _efficiency(one),
            "-" if one.cell.rule == REFERENCE else _with_error(one.gain, one.gain_error, "+.3f"),
            " ".join(f"{share:.2f}" for share in one.total.acceptance) or "-",
            *(f"{ms:.2f}" if one.prompts else "-" for ms in one.ms_per_token.values()),
            f"{one.total.tokens / one.total.wall:.1f}" if one.prompts else "-",
            _with_error(one.speed_up, float("nan"), ".2f"),
            str(one.prompts),
        )
        for one in sorted(summaries, key=lambda one: one.cell.paths)
    ]
    note = (
        "Block efficiency: tokens per target call, ± its standard error across prompts; over interval: the difference "
        "to token-wise optimal transport at the same K and on the same prompts. Draft, target, verify, rest: "
        "milliseconds per token, prompts included. Speed-up: over vanilla decoding of the same prompts."
    )
    return TextTable(
        title,
        (*header, *phases, "tokens/s", "speed-up", "prompts"),
        rows,
        note,
        details=frozenset(("accepted to depth 1, 2, ...", *phases)),
    )


def failed_table(summaries: Sequence[DecodingSummary]) -> TextTable | None:
    """Why solvers stopped, or None if none did."""
    rows: list[tuple[str, ...]] = [
        (str(one.cell.paths), one.cell.name, one.message) for one in summaries if one.message
    ]
    if not rows:
        return None
    return TextTable(
        "Solvers that failed", ("K", "rule", "why"), rows, "Nothing after the failure was tried.", labels=3
    )


def plot_decoding(summaries: Sequence[DecodingSummary], title: str, path: Path) -> None:
    """Draw block efficiency by K for every rule, and where the time goes at the largest K."""
    plt = pyplot()
    shown = [one for one in summaries if one.prompts]
    counts = sorted({one.cell.paths for one in shown if one.cell.paths > 1})
    several = [mine for mine in _by_rule(shown) if mine[0].cell.paths > 1]
    bars = [one for one in shown if one.cell.paths in (0, 1, max(counts, default=1))]
    figure, (left, right) = plt.subplots(1, 2, figsize=(13, max(4.5, 0.3 * len(bars) + 1.5)), layout="constrained")
    colours = plt.get_cmap("tab10" if len(several) <= 10 else "tab20")
    for number, mine in enumerate(several):
        shift = 0.3 * ((number + 0.5) / len(several) - 0.5)
        left.errorbar(
            [one.cell.paths + shift for one in mine],
            [one.total.block_efficiency for one in mine],
            yerr=[one.error for one in mine],
            marker="o",
            markersize=4,
            capsize=2,
            color=colours(number % 20),
            label=_label(mine[0]),
        )
    for style, one in zip(STYLES, [one for one in shown if one.cell.paths < 2], strict=False):
        left.axhline(one.total.block_efficiency, color="0.55", linestyle=style, linewidth=1, label=_label(one))
    left.set_xticks(counts)
    left.set_xlabel("K, drafted paths")
    left.set_ylabel("block efficiency: tokens per target call (± standard error)")
    left.set_title(title)
    left.grid(axis="y", alpha=0.3)
    left.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    start = np.zeros(len(bars))
    for phase in Metrics().seconds:
        spent = np.array([one.ms_per_token[phase] for one in bars])
        right.barh([_label(one) for one in bars], spent, left=start, label=phase)
        start += spent
    right.invert_yaxis()
    right.set_xlabel("milliseconds per token")
    right.set_title(f"Where the time goes{f', K = {max(counts)}' if counts else ''}")
    right.grid(axis="x", alpha=0.3)
    right.legend(fontsize=8)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _label(one: DecodingSummary) -> str:
    notes = [*(["one path"] if one.cell.paths == 1 else []), *([] if one.lossless else ["lossy"])]
    return " ".join([one.cell.name, *(f"({note})" for note in notes)])


def _efficiency(one: DecodingSummary) -> str:
    if not one.prompts:
        return "failed"
    return _with_error(one.total.block_efficiency, one.error, ".3f")


def _with_error(figure: float, error: float, digits: str) -> str:
    """A figure and its error, of which a single prompt has none; a dash where there is no figure."""
    if np.isnan(figure):
        return "-"
    return format(figure, digits) + ("" if np.isnan(error) else f" ± {error:.3f}")
