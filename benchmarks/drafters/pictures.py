"""The picture of a run: Figures 4 and 5 of [berdozsteering], acceptance by depth, and what old steering is worth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import altair as alt
import numpy as np

from benchmarks.drafters.plan import Learner, Plan
from benchmarks.drafters.tables import CHAIN, GREEDY, by_offset, by_window, held_out, of_way, reach, taus
from benchmarks.reporting import Record
from otspec.reporting.charts import Axis, Group, dot_chart, line_chart, rows_of
from otspec.reporting.layers import line_at
from otspec.reporting.means import SERIES, Row
from otspec.reporting.pictures import Part, sheet
from otspec.reporting.style import Style, styles_of

BEGUN = {"shipped": "shipped draft", "plain": "plain, 1 layer", "deep": "deep, 4 layers", "target": "of the target"}


def draw(plan: Plan, records: Sequence[Record], path: Path) -> None:
    """Four charts."""
    there = [one for one in plan.learners if of_way(records, one.name, CHAIN)]
    styles = styles_of(dict.fromkeys(one.kind for one in there))
    origins = styles_of(dict.fromkeys(BEGUN[one.start] for one in there if one.kind == "sd2"))
    shown = [one for one in there if one.start in ("shipped", "target")]
    plain = [one for one in there if one.start == "plain"]
    lines = [_depths(shown, records, styles), _positions(plain, records, styles)]
    accepted = "Mean over seeds, and the standard deviation over them. Hollow: temperature 0."
    kinds = [
        Group("Accepted drafts a step", accepted, [_accepted(there, records, styles)], columns=1),
        Group("By depth, and by position in the text", "", [chart for chart in lines if rows_of(chart)]),
    ]
    offsets = _offsets(there, records, origins)
    less = "Held-out acceptance of steered drafts less that of distilled ones."
    steered = Part("", origins, [Group("What steering adds", less, [offsets], columns=1)])
    sheet([Part("", styles, kinds), *([steered] if rows_of(offsets) else [])]).save(path)


def _accepted(there: Sequence[Learner], records: Sequence[Record], styles: Mapping[str, Style]) -> alt.LayerChart:
    """Figure 5: accepted drafts a step, filled at T = 1, hollow at T = 0."""
    rows: list[Row] = []
    for one in there:
        for way in (CHAIN, GREEDY):
            values = np.array(taus(records, one.name, way)) - 1
            mean, error = float(values.mean()), float(values.std(ddof=1)) if values.size > 1 else 0.0
            ends = {"x": mean, "low": mean - error, "high": mean + error}
            rows.append({SERIES: one.kind, "y": f"{BEGUN[one.start]}: {one.kind}", "part": way is GREEDY, **ends})
    return dot_chart(rows, Axis("accepted drafts a step", zero=True), styles)


def _depths(mine: Sequence[Learner], records: Sequence[Record], styles: Mapping[str, Style]) -> alt.LayerChart:
    rows = [
        {SERIES: one.kind, "x": depth, "y": share}
        for one in mine
        for depth, share in enumerate(reach(records, one.name, CHAIN), 1)
    ]
    axes = Axis("drafts", ticks=range(1, 9)), Axis("share of steps that accept so many", zero=True)
    return line_chart(rows, *axes, styles, "shipped draft, and of the target")


def _positions(mine: Sequence[Learner], records: Sequence[Record], styles: Mapping[str, Style]) -> alt.LayerChart:
    """Figure 4."""
    rows = [
        {SERIES: one.kind, "x": middle, "y": accepted}
        for one in mine
        for middle, accepted in by_window(records, one.name).items()
    ]
    axes = Axis("position of the window's middle"), Axis("accepted drafts a step", zero=True)
    return line_chart(rows, *axes, styles, BEGUN["plain"])


def _offsets(there: Sequence[Learner], records: Sequence[Record], styles: Mapping[str, Style]) -> alt.LayerChart:
    """What steering adds to distillation, by how old it is."""
    rows: list[Row] = []
    for one in there:
        base = next((other.name for other in there if other[:2] == (one.start, "distilled")), "")
        without = held_out(records, base)
        if one.kind == "sd2" and without is not None:
            gains = (each - without for each in by_offset(records, one.name))
            rows += [{SERIES: BEGUN[one.start], "x": age, "y": gain} for age, gain in enumerate(gains, 1)]
    axes = Axis("tokens since the target was heard", ticks=range(1, 9)), Axis("difference in acceptance")
    return line_chart(rows, *axes, styles, height=180) + line_at(y=0.0, dash=())
