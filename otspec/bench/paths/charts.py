"""The charts of the benchmark of recorded trees: what rules accept, and how deep they get."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import altair as alt

from otspec.bench.paths.summary import PathsSummary
from otspec.bench.paths.tables import label
from otspec.reporting.charts import HOVER, Axis, Group, dot_chart, hover_text, line_chart
from otspec.reporting.means import SERIES, Row, number
from otspec.reporting.style import Look, looks

PICTURE = "report.png"


def series_of(summaries: Sequence[PathsSummary]) -> dict[str, Look]:
    """The rules as charts show them, by label."""
    return looks(dict.fromkeys(label(one) for one in _rules(summaries)))


def chart_groups(summaries: Sequence[PathsSummary]) -> list[Group]:
    """What a report shows of the trees of one file."""
    rules, styles = _rules(summaries), series_of(summaries)
    if not rules:
        return []
    note = "Mean number of drafted tokens of a tree that are accepted, 95 % intervals over prompts."
    return [
        Group("Accepted tokens", note, [_accepted(rules, styles)], 1, PICTURE),
        Group("Reach", "Mean over trees.", [_reach(rules, styles)], 1, PICTURE),
    ]


def _rules(summaries: Sequence[PathsSummary]) -> list[PathsSummary]:
    return [one for one in summaries if one.trees]


def _accepted(rules: Sequence[PathsSummary], styles: Mapping[str, Look]) -> alt.LayerChart:
    rows: list[Row] = [
        {
            SERIES: label(one),
            "y": label(one),
            "x": one.accepted.value,
            "low": number(one.accepted.low),
            "high": number(one.accepted.high),
            HOVER: hover_text(label(one), accepted=one.accepted.shown(".3f"), trees=one.trees),
        }
        for one in rules
    ]
    return dot_chart(rows, Axis("accepted tokens of a tree"), styles)


def _reach(rules: Sequence[PathsSummary], styles: Mapping[str, Look]) -> alt.LayerChart:
    rows: list[Row] = [
        {SERIES: label(one), "x": depth, "y": share, HOVER: hover_text(label(one), **{f">= {depth}": f"{share:.3f}"})}
        for one in rules
        for depth, share in enumerate(one.reach, 1)
    ]
    ticks = range(1, rules[0].cell.depth + 1)
    axes = Axis("drafted tokens", ticks=ticks), Axis("P(so many or more accepted)", ends=(0.0, 1.0))
    return line_chart(rows, *axes, styles)
