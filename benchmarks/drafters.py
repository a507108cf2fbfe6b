"""Draft models side by side, as in Tables 1, 3 and 5 and Figure 5 of [berdozsteering].

    otspec train distilled --out report/distilled; otspec train sd2 --out report/sd2
    otspec bench decode --drafter full,report/distilled,report/sd2 --paths 1 --depth 8 --solver nested --repeats 3 \
        --baselines generate --temperature 1,0 --out report/drafters
    python -m benchmarks.drafters report/drafters

Block efficiency is the mean over the repeats, which have random numbers of their own, with its standard deviation, and
Welch's test against the draft model as it is; speed-ups are paired by text.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from scipy.stats import ttest_ind

from otspec.bench.decoding_cells import OURS, DecodingCell, decoding_cell_of
from otspec.bench.decoding_summary import DecodingSummary, summarise
from otspec.bench.intervals import by_prompt, quotient
from otspec.bench.records import Record
from otspec.errors import DataError
from otspec.reporting.console import console
from otspec.reporting.plotting import pyplot
from otspec.reporting.tables import TextTable

FULL = "as it is"


def main(
    folder: Annotated[Path, typer.Argument(help="What `otspec bench decode --drafter ...` left.")],
    picture: Annotated[Path | None, typer.Option(help="Where to draw acceptance by depth.")] = None,
) -> None:
    """Tell the draft models of a benchmark apart."""
    records = read(folder / "results.jsonl")
    for temperature in sorted({record["temperature"] for record in records}, reverse=True):
        mine = [record for record in records if record["temperature"] == temperature]
        console.print(table(mine, temperature).on_screen(console.width))
    if picture is not None:
        draw(records, picture)


def read(path: Path) -> list[Record]:
    """The records of texts, trials left out.

    Raises
    ------
    DataError
        If there is none of a drafter.
    """
    if not path.is_file():
        raise DataError(f"there is no {path}; pass the folder of `otspec bench decode --drafter full,...`")
    records = [json.loads(line) for line in path.read_text().splitlines()]
    kept = [record for record in records if not record["trial"]]
    if not any(record["method"] == OURS for record in kept):
        raise DataError(f"{path} has no trees of a draft model")
    return kept


def table(records: Sequence[Record], temperature: float) -> TextTable:
    """A row for every drafter, at one temperature."""
    summaries = {one.cell: one for one in summarise(records) if one.cell.method == OURS}
    rows: list[tuple[str, ...]] = []
    for cell, summary in summaries.items():
        taus, plain = efficiencies(records, cell), efficiencies(records, _as_it_is(cell))
        deviation = f"{np.std(taus, ddof=1):.3f}" if len(taus) > 1 else "-"
        rows.append(
            (
                cell.drafter or FULL,
                f"{cell.rule}, K = {cell.paths}, L = {cell.depth}",
                f"{np.mean(taus):.3f}",
                deviation,
                *(welch(taus, plain) if cell.drafter else ("-", "-")),
                *_speed_ups(summary, records),
                " ".join(f"{share:.2f}" for share in summary.total.acceptance),
            )
        )
    header = ("drafter", "rule", "tau", "sd", "t", "p", "over full", "over generate", "accepted to depth 1, 2, ...")
    note = "sd: over repeats; t, p: Welch's test against the draft model as it is. In brackets 95 % intervals."
    return TextTable(f"Drafters at temperature {temperature:g}", header, rows, note, labels=2)


def efficiencies(records: Sequence[Record], cell: DecodingCell) -> list[float]:
    """Block efficiency of a cell in each repeat."""
    mine = [record for record in records if decoding_cell_of(record) == cell]
    found = []
    for repeat in sorted({record["repeat"] for record in mine}):
        texts = [record for record in mine if record["repeat"] == repeat]
        found.append(sum(text["tokens"] for text in texts) / sum(text["sequence_steps"] for text in texts))
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


def draw(records: Sequence[Record], path: Path) -> None:
    """Acceptance by depth, a panel for each temperature and a line for each drafter."""
    plt = pyplot()
    temperatures = sorted({record["temperature"] for record in records}, reverse=True)
    figure, panels = plt.subplots(1, len(temperatures), figsize=(5 * len(temperatures), 4), sharey=True, squeeze=False)
    for axes, temperature in zip(panels[0], temperatures, strict=True):
        mine = [record for record in records if record["temperature"] == temperature]
        for one in summarise(mine):
            if one.cell.method == OURS:
                _line(axes, one.total.acceptance, one.cell.drafter or FULL)
        axes.set_title(f"temperature {temperature:g}")
        axes.set_xlabel("depth")
        axes.set_ylim(0, 1)
    panels[0][0].set_ylabel("P(so many drafts are accepted)")
    panels[0][0].legend()
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _line(axes: Any, acceptance: Sequence[float], name: str) -> None:
    axes.plot(range(1, len(acceptance) + 1), acceptance, marker="o", label=Path(name).name)


if __name__ == "__main__":
    typer.run(main)
