"""The charts of the benchmark of recorded trees: what rules accept, and how deep they get."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import altair as alt

from otspec.bench.paths.summary import Row
from otspec.reporting.charts import HOVER, Axis, Group, dot_chart, hover_text, line_chart
from otspec.reporting.means import SERIES, number
from otspec.reporting.style import Look, looks

PICTURE = "report.png"


def series_of(rows: Sequence[Row]) -> dict[str, Look]:
    """The rules as charts show them, by label."""
    return looks(dict.fromkeys(one["label"] for one in _rules(rows)))


def chart_groups(rows: Sequence[Row]) -> list[Group]:
    """What a report shows of the trees of one file."""
    rules, styles = _rules(rows), series_of(rows)
    if not rules:
        return []
    note = "Mean number of drafted tokens of a tree that are accepted, 95 % intervals over prompts."
    return [
        Group("Accepted tokens", note, [_accepted(rules, styles)], 1, PICTURE),
        Group("Reach", "Mean over trees.", [_reach(rules, styles)], 1, PICTURE),
    ]


def _rules(rows: Sequence[Row]) -> list[Row]:
    return [one for one in rows if one["trees"]]


def _accepted(rules: Sequence[Row], styles: Mapping[str, Look]) -> alt.LayerChart:
    points = [
        {SERIES: one["label"], "y": one["label"], "x": one["accepted"].value}
        | {"low": number(one["accepted"].low), "high": number(one["accepted"].high)}
        | {HOVER: hover_text(one["label"], accepted=one["accepted"].shown(".3f"), trees=one["trees"])}
        for one in rules
    ]
    return dot_chart(points, Axis("accepted tokens of a tree"), styles)


def _reach(rules: Sequence[Row], styles: Mapping[str, Look]) -> alt.LayerChart:
    points = [
        {
            SERIES: one["label"],
            "x": depth,
            "y": share,
            HOVER: hover_text(one["label"], **{f">= {depth}": f"{share:.3f}"}),
        }
        for one in rules
        for depth, share in enumerate(one["reach"], 1)
    ]
    ticks = range(1, rules[0]["depth"] + 1)
    axes = Axis("drafted tokens", ticks=ticks), Axis("P(so many or more accepted)", ends=(0.0, 1.0))
    return line_chart(points, *axes, styles)
