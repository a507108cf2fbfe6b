"""Figure 1 of [thomas2025global]: the optimal acceptance of n i.i.d. drafts truncated to the k likeliest tokens.

    python -m benchmarks.global_resolution.acceptance [--positions 256] [--data llama3,gemma2] [--out report/figure_1]

Every point is the mean over positions of what the plan of `interval` accepts, with its certified gap.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.global_resolution.common import ANCHORS, KS, NS, acceptances, accepted, label, mean, worst_gap
from benchmarks.reporting import Record, measure_and_tell, options
from otspec.reporting.plotting import draw_means, label_lines, ordered, picture
from otspec.reporting.style import LIGHT
from otspec.reporting.tables import TextTable


def table(name: str, records: list[Record]) -> TextTable:
    """Mean acceptance, k down and n across, with what the paper prints in brackets."""
    anchors = ANCHORS.get(name, {})
    rows: list[tuple[str, ...]] = []
    for k in KS:
        shown = [f"{mean(records, k=k, n=n):.4f}" for n in NS]
        printed = [f" [{anchors[k, n]:.4f}]" if (k, n) in anchors else "" for n in NS]
        rows.append((label(k), *(value + paper for value, paper in zip(shown, printed, strict=True))))
    note = (
        f"Mean over {len(records) // len(KS) // len(NS)} positions; interval, certified within "
        f"{worst_gap(records):.0e}. In brackets what the paper prints for real models."
    )
    return TextTable(f"Optimal acceptance on {name}", ("", *(f"n = {n}" for n in NS)), rows, note, labels=1)


def draw(records: dict[str, list[Record]], path: Path) -> None:
    """One panel per profile, acceptance over n, one line per k."""
    with picture(path, 4.6 * len(records), 4) as figure:
        panels = figure.subplots(1, len(records), sharey=True, squeeze=False)
        for axes, (name, mine) in zip(panels[0], records.items(), strict=True):
            for k, style in zip(KS, ordered(len(KS)), strict=True):
                samples = [accepted(mine, k=k, n=n) for n in NS]
                draw_means(axes, NS, samples, marker="o", markersize=3.5, label=label(k), **style)
            anchors = ANCHORS.get(name, {})
            if anchors:
                printed = {"color": LIGHT.ink, "marker": "x", "linestyle": "none", "zorder": 3}
                axes.plot([n for _, n in anchors], list(anchors.values()), **printed)
                axes.annotate("x: printed in the paper", (0.98, 0.02), xycoords="axes fraction", ha="right")
            axes.set_title(name)
            axes.set_xlabel("i.i.d. drafts n")
        panels[0][0].set_ylabel("optimal acceptance (mean)")
        label_lines(panels[0][-1], loc="lower right")


def main() -> None:
    """Measure, print, draw."""
    asked = options("Figure 1: acceptance over n and k.", "llama3,gemma2", 256, "report/figure_1")
    measure_and_tell(asked, acceptances, table, draw, "acceptance.png")


if __name__ == "__main__":
    main()
