"""Figure 1 of [thomas2025global]: the optimal acceptance of n i.i.d. drafts truncated to the k likeliest tokens.

    python -m benchmarks.global_resolution.acceptance [--positions 256] [--data llama3,gemma2] [--out report/figure_1]

Every point is the mean over positions of what the plan of `interval` accepts, with its certified gap.
"""

from __future__ import annotations

from itertools import chain
from pathlib import Path

from benchmarks.global_resolution.common import ANCHORS, NS, acceptances, ks_in, label, mean, worst_gap
from benchmarks.reporting import Record, measure_and_tell, options
from otspec.reporting.charts import Axis, ends_of, line_chart
from otspec.reporting.means import SERIES, means
from otspec.reporting.pictures import picture
from otspec.reporting.style import INK, MARKERS, Style, ordered
from otspec.reporting.tables import TextTable


def table(name: str, records: list[Record]) -> TextTable:
    """Mean acceptance, k down and n across, with what the paper prints in brackets."""
    anchors = ANCHORS.get(name, {})
    rows: list[tuple[str, ...]] = []
    ks = ks_in(records)
    for k in ks:
        shown = [f"{mean(records, k=k, n=n):.4f}" for n in NS]
        printed = [f" [{anchors[k, n]:.4f}]" if (k, n) in anchors else "" for n in NS]
        rows.append((label(k), *(value + paper for value, paper in zip(shown, printed, strict=True))))
    note = (
        f"Mean over {len(records) // len(ks) // len(NS)} positions; interval, certified within "
        f"{worst_gap(records):.0e}. In brackets what the paper prints for real models."
    )
    return TextTable(f"Optimal acceptance on {name}", ("", *(f"n = {n}" for n in NS)), rows, note, labels=1)


PRINTED = "printed in the paper"


def draw(records: dict[str, list[Record]], path: Path) -> None:
    """One chart per profile, acceptance over n, one line per k."""
    ks = ks_in(chain.from_iterable(records.values()))
    styles = {**ordered([label(k) for k in ks]), PRINTED: Style(INK, MARKERS[-1], hollow=True)}
    rows = {name: means(mine, x="n", y="acceptance", series=lambda r: label(r["k"])) for name, mine in records.items()}
    for name, mine in rows.items():
        mine += [{SERIES: PRINTED, "x": n, "y": value} for (_, n), value in ANCHORS.get(name, {}).items()]
    upright = Axis("optimal acceptance", ends=ends_of([row for mine in rows.values() for row in mine]))
    charts = [line_chart(mine, Axis("i.i.d. drafts n", ticks=NS), upright, styles, name) for name, mine in rows.items()]
    picture(charts, styles, note="Means over positions, with one standard error.").save(path)


def main() -> None:
    """Measure, print, draw."""
    request = options("Figure 1: acceptance over n and k.", "llama3,gemma2", 256, "report/figure_1")
    measure_and_tell(request, acceptances, table, draw, "acceptance.png")


if __name__ == "__main__":
    main()
