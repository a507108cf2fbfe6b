"""Drafters side by side, as in Tables 1, 3 and 5 and Figure 5 of [berdozsteering]."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy.stats import ttest_ind

from otspec.bench.decoding_cells import DecodingCell, decoding_cell_of
from otspec.bench.decoding_summary import DecodingSummary
from otspec.bench.intervals import by_prompt, quotient
from otspec.bench.records import Record
from otspec.reporting.plotting import label_lines, line, picture
from otspec.reporting.style import looks
from otspec.reporting.tables import TextTable

FULL = "as it is"
"""How the draft model is called where no other drafts."""


def drafters_table(summaries: Sequence[DecodingSummary], records: Sequence[Record], title: str) -> TextTable | None:
    """A row for every drafter with every rule, summaries of one temperature; None where there is one drafter."""
    shown = compared(summaries)
    rows: list[tuple[str, ...]] = []
    for summary in shown:
        cell = summary.cell
        taus, plain = efficiencies(records, cell), efficiencies(records, _as_it_is(cell))
        deviation = f"{np.std(taus, ddof=1):.3f}" if len(taus) > 1 else "-"
        rows.append(
            (
                cell.drafter or FULL,
                f"{cell.name}, K = {cell.paths}, L = {cell.depth}",
                f"{np.mean(taus):.3f}",
                deviation,
                *(welch(taus, plain) if cell.drafter else ("-", "-")),
                *_speed_ups(summary, records),
                " ".join(f"{share:.2f}" for share in summary.total.acceptance),
            )
        )
    header = ("drafter", "rule", "tau", "sd", "t", "p", "over full", "over generate", "accepted to depth 1, 2, ...")
    note = (
        "tau: block efficiency, the mean over the repeats, sd: its standard deviation over them; t, p: Welch's test "
        "against the draft model as it is. Speed-ups are paired by text, in brackets 95 % intervals."
    )
    return TextTable(title, header, rows, note, labels=2) if rows else None


def compared(summaries: Sequence[DecodingSummary]) -> list[DecodingSummary]:
    """Those whose method is measured with several drafters."""
    settings = {replace(one.cell, drafter="") for one in summaries if one.cell.drafter}
    return [one for one in summaries if replace(one.cell, drafter="") in settings and one.texts]


def efficiencies(records: Sequence[Record], cell: DecodingCell) -> list[float]:
    """Block efficiency of a cell in each repeat."""
    mine = [record for record in records if decoding_cell_of(record) == cell]
    found = []
    for repeat in sorted({record["repeat"] for record in mine}):
        texts = [record for record in mine if record["repeat"] == repeat]
        steps = sum(text["sequence_steps"] for text in texts)
        found += [sum(text["tokens"] for text in texts) / steps] if steps else []
    return found


def welch(one: Sequence[float], other: Sequence[float]) -> tuple[str, str]:
    """Welch's t and p that both have one mean."""
    if min(len(one), len(other)) < 2 or np.ptp(one) == np.ptp(other) == 0:
        return "-", "-"
    found = ttest_ind(one, other, equal_var=False)
    return f"{found.statistic:.2f}", f"{found.pvalue:.3f}"


def _as_it_is(cell: DecodingCell) -> DecodingCell:
    return replace(cell, drafter="")


def _speed_ups(summary: DecodingSummary, records: Sequence[Record]) -> tuple[str, str]:
    """Over the draft model as it is, and over transformers' own decoding."""
    over = {cell.method: estimate for cell, estimate in summary.speed_ups.items()}
    mine, plain = (_times(records, cell) for cell in (summary.cell, _as_it_is(summary.cell)))
    rows = [(at[0], (*mine[at], *plain[at])) for at in sorted(mine.keys() & plain.keys())]
    full = quotient(*by_prompt(rows)).shown(".2f") if summary.cell.drafter and rows else "-"
    return full, over["generate"].shown(".2f") if "generate" in over else "-"


def _times(records: Sequence[Record], cell: DecodingCell) -> dict[tuple[int, int], tuple[float, float]]:
    """Tokens and seconds of each text of a cell, by prompt and repeat."""
    mine = [record for record in records if decoding_cell_of(record) == cell and record["tokens"]]
    return {(one["prompt"], one["repeat"]): (one["tokens"], sum(one["seconds"].values())) for one in mine}


def plot_drafters(summaries: Sequence[DecodingSummary], path: Path) -> None:
    """Acceptance by depth, a panel for each temperature and rule and a line for each drafter."""
    panels: dict[str, list[DecodingSummary]] = {}
    for one in compared(summaries):
        cell = one.cell
        panels.setdefault(f"{cell.name}, K = {cell.paths}, temperature {cell.temperature:g}", []).append(one)
    styles = looks(drafter_of(one) for one in compared(summaries))
    with picture(path, 4.5 * len(panels), 4) as figure:
        axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
        for place, (title, mine) in zip(axes, panels.items(), strict=True):
            for one in mine:
                shares = one.total.acceptance
                place.plot(range(1, len(shares) + 1), shares, label=drafter_of(one), **line(styles[drafter_of(one)]))
            place.xaxis.get_major_locator().set_params(integer=True)
            place.set_title(title)
            place.set_xlabel("depth")
            place.set_ylim(0, 1)
            label_lines(place)
        axes[0].set_ylabel("share of steps that accept so many drafts")


def drafter_of(one: DecodingSummary) -> str:
    """The drafter of a cell, a model by the name of its folder."""
    return Path(one.cell.drafter).name or FULL
