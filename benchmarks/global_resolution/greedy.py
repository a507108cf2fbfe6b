"""Figures 2 and 3 of [thomas2025global]: i.i.d. drafts against greedy ones, truncated to the k likeliest tokens.

    python -m benchmarks.global_resolution.greedy [--positions 256] [--data gemma2,llama3] [--out report/figures_2_3]

Greedy drafts are the n - 1 likeliest tokens and one draw from the rest [hu2025towards].
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from benchmarks.global_resolution.common import KS, NS, acceptances, accepted, label, mean, worst_gap
from benchmarks.reporting import Record, measure_and_tell, options
from otspec.reporting.plotting import draw_means, line, picture
from otspec.reporting.style import looks
from otspec.reporting.tables import TextTable

LAWS = ("iid", "greedy")


def table(name: str, records: list[Record]) -> TextTable:
    """Both acceptances and their difference, a row per k."""
    rows: list[tuple[str, ...]] = []
    for k in KS:
        iid, greedy = ([mean(records, k=k, n=n, law=law) for n in NS] for law in LAWS)
        rows.append((label(k), "i.i.d.", *(f"{value:.4f}" for value in iid)))
        rows.append((label(k), "greedy", *(f"{value:.4f}" for value in greedy)))
        gains = (f"{100 * (one - other):+.2f}" for one, other in zip(iid, greedy, strict=True))
        rows.append((label(k), "difference, points", *gains))
    note = (
        f"Mean over {len(records) // len(KS) // len(NS) // len(LAWS)} positions; both are optima of their draft law, "
        f"certified within {worst_gap(records):.0e}."
    )
    return TextTable(f"i.i.d. against greedy drafts on {name}", ("", "drafts", *(f"n = {n}" for n in NS)), rows, note)


def draw(records: dict[str, list[Record]], path: Path) -> None:
    """One panel per profile and k, a line for each draft law."""
    with picture(path, 2.5 * len(KS), 2.7 * len(records)) as figure:
        panels = figure.subplots(len(records), len(KS), squeeze=False)
        for row, (name, mine) in zip(panels, records.items(), strict=True):
            for axes, k in zip(row, KS, strict=True):
                for law, look in looks(LAWS).items():
                    samples = [accepted(mine, k=k, n=n, law=law) for n in NS]
                    draw_means(axes, NS, samples, label=law, **line(look) | {"markersize": 3})
                axes.set_title(f"{name}, {label(k)}")
                axes.set_xticks((1, 4, 7, 10))
            row[0].set_ylabel("optimal acceptance")
        for axes in panels[-1]:
            axes.set_xlabel("drafts n")
        panels[0][0].legend(loc="lower right")


def main() -> None:
    """Measure, print, draw."""
    asked = options("Figures 2 and 3: i.i.d. against greedy drafts.", "gemma2,llama3", 256, "report/figures_2_3")
    measure_and_tell(asked, partial(acceptances, laws=LAWS), table, draw, "greedy.png")


if __name__ == "__main__":
    main()
