"""Figure 1 of [thomas2025global]: the optimal acceptance of n i.i.d. drafts truncated to the k likeliest tokens.

    python -m benchmarks.global_resolution.acceptance [--positions 256] [--data llama3,gemma2] [--out report/figure_1]

Every point is the mean over positions of what the plan of `interval` accepts, with its certified gap.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.global_resolution.common import ANCHORS, KS, NS, acceptances, label, mean, worst_gap
from benchmarks.reporting import Record, measure_and_tell, options
from otspec.reporting.plotting import pyplot
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
    plt = pyplot()
    figure, panels = plt.subplots(
        1, len(records), figsize=(4.6 * len(records), 4), layout="constrained", sharey=True, squeeze=False
    )
    for axes, (name, mine) in zip(panels[0], records.items(), strict=True):
        for k in KS:
            axes.plot(NS, [mean(mine, k=k, n=n) for n in NS], marker="o", markersize=3.5, label=label(k))
        anchors = ANCHORS.get(name, {})
        if anchors:
            printed = {"color": "k", "marker": "x", "linestyle": "none", "zorder": 3}
            axes.plot([n for _, n in anchors], list(anchors.values()), label="printed in the paper", **printed)
        axes.set_title(name)
        axes.set_xlabel("i.i.d. drafts n")
        axes.grid(alpha=0.3)
    panels[0][0].set_ylabel("optimal acceptance (mean)")
    panels[0][0].legend(fontsize=8, loc="lower right")
    figure.savefig(path, dpi=130)
    plt.close(figure)


def main() -> None:
    """Measure, print, draw."""
    asked = options("Figure 1: acceptance over n and k.", "llama3,gemma2", 256, "report/figure_1")
    measure_and_tell(asked, acceptances, table, draw, "acceptance.png")


if __name__ == "__main__":
    main()
