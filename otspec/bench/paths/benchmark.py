"""The benchmark of recorded trees, declared: what it records and compares, and its report with the charts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import altair as alt
import polars as pl

from otspec.bench.paths.summary import ACCEPTED, REFERENCE, TIME, PathsCell, Row, frame, paths_cell_of, summarise
from otspec.bench.paths.tables import (
    Overview,
    accepted_table,
    failed_table,
    overview_of,
    reach_table,
    recordings_table,
    rules_of,
    times_table,
    verifiers_table,
)
from otspec.bench.report import BenchmarkKind, Report, Run, in_words
from otspec.reporting.charts import HOVER, Axis, Group, dot_chart, hover_text, line_chart
from otspec.reporting.means import SERIES
from otspec.reporting.page import Section
from otspec.reporting.style import Style, styles_of

PICTURE, OF_ALL = "report.png", "recordings.png"


def series_of(rows: Sequence[Row]) -> dict[str, Style]:
    """The rules as charts show them, by label."""
    return styles_of(dict.fromkeys(one["label"] for one in _rules(rows)))


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


def _accepted(rules: Sequence[Row], styles: Mapping[str, Style]) -> alt.LayerChart:
    points = [
        {SERIES: one["label"], "y": one["label"], **one["accepted"].along("x")}
        | {HOVER: hover_text(one["label"], accepted=one["accepted"].shown(".3f"), trees=one["trees"])}
        for one in rules
    ]
    return dot_chart(points, Axis("accepted tokens of a tree"), styles)


def _reach(rules: Sequence[Row], styles: Mapping[str, Style]) -> alt.LayerChart:
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


def _section(overview: Overview, reference: str) -> Section:
    """The part of the page that has all recordings."""
    series = styles_of(rules_of(overview))
    points = [
        {
            SERIES: rule,
            "x": recording,
            **one["gain"].along("y"),
            HOVER: hover_text(
                f"{rule}, {recording}", accepted=one["accepted"].shown(".3f"), gain=one["gain"].shown("+.3f")
            ),
        }
        for recording, mine in overview.items()
        for rule, one in mine.items()
        if not math.isnan(one["gain"].value)
    ]
    axes = Axis(places=list(overview)), Axis(f"accepted tokens more than {reference}")
    note = f"Accepted tokens more than those of {reference} on the same trees, 95 % intervals over prompts."
    groups = [Group("Gains", note, [line_chart(points, *axes, series, joined=False)], 1, OF_ALL)]
    tables = [verifiers_table(overview), times_table(overview, reference)]
    return Section("All recordings", series, groups if points else [], tables)


def report(run: Run) -> Report | None:
    """Tables and charts of every file of trees; None while there are no records."""
    reference = next((one.get("reference", REFERENCE) for one in run.runs[-1:]), REFERENCE)
    summaries = summarise(run.records, reference)
    if not summaries:
        return None
    overview = overview_of(summaries)
    accepted, reached, sections = [], [], []
    for data, by_rule in overview.items():
        mine = list(by_rule.values())
        title = f"{data}: K = {mine[0]['paths']}, L = {mine[0]['depth']}"
        lengths = accepted_table(mine, f"Accepted tokens: {title}", reference)
        reach = reach_table(mine, f"Reach: {title}")
        accepted.append(lengths)
        reached += [] if reach is None else [reach]
        here = [lengths] if reach is None else [lengths, reach]
        sections.append(Section(title, series_of(mine), chart_groups(mine), here))
    failed = [one for one in [failed_table(summaries)] if one is not None]
    several = [_section(overview, reference)] if len(overview) > 1 else []
    tables = [table for one in several for table in one.tables]
    beside = [recordings_table(run), *failed]
    return Report(
        title="Rules on recorded trees",
        machine=in_words(run.identity["processor"]),
        notes=[],
        tables=[*tables, *accepted, *reached, *beside],
        screen=[*failed, *accepted, *tables],
        sections=[*several, *sections, Section("Beside these", {}, [], beside)],
    )


def _labels(cell: PathsCell) -> tuple[str, str]:
    return f"{cell.data}, K = {cell.paths}, L = {cell.depth}", cell.rule


KIND = BenchmarkKind(
    name="paths",
    cell_of=paths_cell_of,
    cell=PathsCell,
    frame=frame,
    finished=pl.col("wall_s").is_not_null() & (pl.col("message") == ""),
    time=TIME,
    figure=ACCEPTED,
    labels=_labels,
    report=report,
    pictures=lambda identity: [OF_ALL, PICTURE],
)
