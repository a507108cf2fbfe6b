"""Figures 2 and 3 of [thomas2025global]: i.i.d. drafts against greedy ones, truncated to the k likeliest tokens.

    python -m benchmarks.global_resolution.greedy [--positions 256] [--data gemma2,llama3] [--out report/figures_2_3]

Greedy drafts are the n - 1 likeliest tokens and one draw from the rest [hu2025towards].
"""

from __future__ import annotations

from functools import partial
from itertools import chain
from pathlib import Path

from benchmarks.global_resolution.common import NS, acceptances, ks_in, label, mean, worst_gap
from benchmarks.reporting import Record, measure_and_tell, options
from otspec.reporting.charts import Axis, line_chart
from otspec.reporting.means import means
from otspec.reporting.pictures import picture
from otspec.reporting.style import styles_of
from otspec.reporting.tables import TextTable

NAMES = {"iid": "i.i.d.", "greedy": "greedy"}
LAWS = tuple(NAMES)


def table(name: str, records: list[Record]) -> TextTable:
    """Both acceptances and their difference, a row per k."""
    rows: list[tuple[str, ...]] = []
    ks = ks_in(records)
    for k in ks:
        iid, greedy = ([mean(records, k=k, n=n, law=law) for n in NS] for law in LAWS)
        rows.append((label(k), "i.i.d.", *(f"{value:.4f}" for value in iid)))
        rows.append((label(k), "greedy", *(f"{value:.4f}" for value in greedy)))
        gains = (f"{100 * (one - other):+.2f}" for one, other in zip(iid, greedy, strict=True))
        rows.append((label(k), "difference, points", *gains))
    note = (
        f"Mean over {len(records) // len(ks) // len(NS) // len(LAWS)} positions; both are optima of their draft law, "
        f"certified within {worst_gap(records):.0e}."
    )
    return TextTable(f"i.i.d. against greedy drafts on {name}", ("", "drafts", *(f"n = {n}" for n in NS)), rows, note)


def draw(records: dict[str, list[Record]], path: Path) -> None:
    """One chart per k and profile, a line for each draft law."""
    styles = styles_of(NAMES.values())
    charts = [
        line_chart(
            means([r for r in mine if r["k"] == k], x="n", y="acceptance", series=lambda r: NAMES[r["law"]]),
            Axis("drafts n", ticks=(1, 4, 7, 10)),
            Axis("optimal acceptance"),
            styles,
            f"{name}, {label(k)}",
            height=170,
        )
        for k in ks_in(chain.from_iterable(records.values()))
        for name, mine in records.items()
        if k in ks_in(mine)
    ]
    picture(charts, styles, note="Means over positions, with one standard error.").save(path)


def main() -> None:
    """Measure, print, draw."""
    request = options("Figures 2 and 3: i.i.d. against greedy drafts.", "gemma2,llama3", 256, "report/figures_2_3")
    measure_and_tell(request, partial(acceptances, laws=LAWS), table, draw, "greedy.png")


if __name__ == "__main__":
    main()
