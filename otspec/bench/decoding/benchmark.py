"""The decoding benchmark, declared: what it records and compares, and its report with the charts."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import polars as pl

from otspec.bench.decoding.cells import DecodingCell, decoding_cell_of
from otspec.bench.decoding.summary import (
    BASELINES,
    EFFICIENCY,
    REFERENCE,
    TIME,
    DecodingSummary,
    at_shape,
    beside_shape,
    by_rule,
    by_task,
    fastest_first,
    frame,
    label,
    setting_of,
    shape,
    shapes,
    summarise,
    whole_label,
)
from otspec.bench.decoding.tables import (
    choice_table,
    compared,
    decoding_table,
    drafter_of,
    drafters_table,
    efficiency_table,
    failed_table,
    served_table,
    speed_up_table,
    task_tables,
)
from otspec.bench.report import BenchmarkKind, Report, Run, in_words
from otspec.decode.base.metrics import Metrics
from otspec.reporting.charts import HOVER, Axis, Group, bar_chart, dot_chart, hover_text, line_chart
from otspec.reporting.layers import line_at
from otspec.reporting.means import SERIES, Row, number
from otspec.reporting.page import Section
from otspec.reporting.style import Style, styles_of
from otspec.reporting.tables import TextTable

PICTURE, DRAFTERS = "report.png", "drafters.png"
DRAWN = ("generate", "vanilla")
"""Baselines that the picture has speed-ups over; the page has all."""
FASTER = (
    "Milliseconds a token of the baseline over those of the rule, on the same texts, 95 % intervals; the dashed line "
    "is no difference."
)


def series_of(summaries: Sequence[DecodingSummary]) -> dict[str, Style]:
    """The rules and methods as charts show them, by label, without K and L."""
    return styles_of(dict.fromkeys(label(one) for one in summaries if one.prompts))


def chart_groups(summaries: Sequence[DecodingSummary]) -> list[Group]:
    """What a report shows of the cells of one temperature."""
    shown = [one for one in summaries if one.prompts]
    styles = series_of(shown)
    found = {cell for one in shown for cell in one.speed_ups}
    baselines = sorted(found, key=lambda cell: BASELINES.index(cell.method))
    drawn = [_speed_up(shown, styles, one) for one in baselines if one.method in DRAWN]
    others = [_speed_up(shown, styles, one) for one in baselines if one.method not in DRAWN]
    groups = [
        Group("Block efficiency", "Tokens per target call, 95 % intervals.", _efficiencies(shown, styles), 1, PICTURE),
        Group("Speed-up", FASTER, drawn, 1, PICTURE),
        Group("Speed-up over other methods", FASTER, others, 1),
        Group("Where the time goes", "Milliseconds per token, by phase.", _phases(shown), 1, PICTURE),
        Group("Drafters", "Share of the steps that accept so many drafts.", _drafters(shown, styles), 2, DRAFTERS),
    ]
    return [group for group in groups if group.charts]


def _efficiencies(summaries: Sequence[DecodingSummary], styles: dict[str, Style]) -> list[alt.LayerChart]:
    """Every rule by K, a chart for each L, as in the table of them; what has no drafts, so 1, is left out."""
    drafting = [one for one in summaries if one.cell.depth or one.cell.paths > 1]
    settings = shapes(drafting)
    charts = []
    for depth in dict.fromkeys(depth for _, depth in settings):
        counts = [paths for paths, at in settings if at == depth]
        cells = [(paths, at_shape(mine, paths, depth)) for mine in by_rule(drafting) for paths in counts]
        rows = [
            {SERIES: label(one), "x": f"K = {paths}", **one.efficiency.along("y"), HOVER: _hover(one)}
            for paths, one in cells
            if one is not None
        ]
        title = f"L = {depth}" if depth else "as long as the method drafts"
        places = Axis("drafted paths", places=[f"K = {paths}" for paths in counts], apart=0.5)
        charts.append(line_chart(rows, places, Axis("tokens per target call"), styles, title))
    return charts


def _speed_up(summaries: Sequence[DecodingSummary], styles: dict[str, Style], baseline: DecodingCell) -> alt.LayerChart:
    """Over one baseline, the fastest cell first."""
    beside = [(one, one.speed_ups[baseline]) for one in fastest_first(summaries) if baseline in one.speed_ups]
    rows = [
        {SERIES: label(one), "y": whole_label(one), **estimate.along("x"), HOVER: _hover(one, baseline.method)}
        for one, estimate in beside
        if number(estimate.value) is not None
    ]
    return dot_chart(rows, Axis("times as fast"), styles, f"over {baseline.method}") + line_at(x=1.0)


def _phases(summaries: Sequence[DecodingSummary]) -> list[alt.LayerChart]:
    rows: list[Row] = [
        {
            SERIES: label(one),
            "y": whole_label(one),
            "part": phase,
            "x": ms,
            HOVER: hover_text(
                whole_label(one), **{phase: f"{ms:.2f} ms/token" for phase, ms in one.ms_by_phase.items()}
            ),
        }
        for one in fastest_first(summaries)
        for phase, ms in one.ms_by_phase.items()
    ]
    return [bar_chart(rows, Axis("ms per token"), styles_of(Metrics().seconds), "the fastest first")] if rows else []


def _drafters(summaries: Sequence[DecodingSummary], styles: dict[str, Style]) -> list[alt.LayerChart]:
    """Acceptance by depth, as in Figure 5 of [berdozsteering], a chart for each rule and K with several drafters."""
    panels: dict[str, list[DecodingSummary]] = {}
    for one in compared(summaries):
        panels.setdefault(f"{one.cell.name}, K = {one.cell.paths}, L = {one.cell.depth}", []).append(one)
    return [_by_depth(mine, styles, title) for title, mine in panels.items()]


def _by_depth(summaries: Sequence[DecodingSummary], styles: dict[str, Style], title: str) -> alt.LayerChart:
    rows: list[Row] = [
        {
            SERIES: label(one),
            "x": depth,
            "y": share,
            HOVER: hover_text(drafter_of(one), **{f"depth {depth}": f"{share:.2f}"}),
        }
        for one in summaries
        for depth, share in enumerate(one.total.acceptance, 1)
    ]
    ticks = range(1, max(one.cell.depth for one in summaries) + 1)
    axes = Axis("depth: drafted tokens", ticks=ticks), Axis("share of steps", ends=(0.0, 1.0))
    return line_chart(rows, *axes, styles, title)


def _hover(one: DecodingSummary, *baselines: str) -> dict[str, str]:
    """Block efficiency and the speed-ups over some baselines, as the tables print them."""
    over = {
        f"over {cell.method}": found.shown(".2f") for cell, found in one.speed_ups.items() if cell.method in baselines
    }
    ms = f"{one.ms_per_token:.2f}"
    figures = {"block efficiency": one.efficiency.shown(".3f"), **over, "ms/token": ms, "prompts": one.prompts}
    return hover_text(whole_label(one), **figures)


def report(run: Run) -> Report | None:
    """Tables and charts of every temperature; None while there are no records but trials."""
    identity = run.identity
    reference = next((one.get("reference", REFERENCE) for one in run.runs[-1:]), REFERENCE)
    summaries = summarise(run.records, reference)
    if not summaries:
        return None
    cut = [f"{name} {identity[name]}" for name in ("top_k", "top_p") if identity.get(name) is not None]
    tasks = by_task(run.records)
    tables: list[TextTable] = []
    screen: list[TextTable] = []
    sections = []
    settings = dict.fromkeys(setting_of(one.cell) for one in summaries)
    for setting in settings:
        mine = [one for one in summaries if setting_of(one.cell) == setting]
        temperature, batch = setting
        several = any(at != 1 for _, at in settings)
        title = ", ".join([f"temperature {temperature:g}", *([f"batch {batch}"] if several else []), *cut])
        fast = speed_up_table(mine, f"Speed-up: {title}")
        efficient = efficiency_table(mine, f"Block efficiency: {title}")
        served = served_table(mine, title)
        drafters = drafters_table(mine, run.records, f"Drafters: {title}")
        of_tasks = {task: [one for one in all_ if setting_of(one.cell) == setting] for task, all_ in tasks.items()}
        each = task_tables(of_tasks, mine, title)
        whole = decoding_table(mine, f"Decoding: {title}", reference)
        here = [one for one in (fast, efficient, served, drafters, whole, *each) if one is not None]
        tables += here
        screen += [one for one in (efficient, fast, drafters, *each) if one is not None]
        sections.append(Section(title[0].upper() + title[1:], series_of(mine), chart_groups(mine), here))
    choice, failed = choice_table(run.records), failed_table(summaries)
    others = [one for one in (choice, failed) if one is not None]
    where = [in_words(identity[name]) for name in ("processor", "device", "threads")]
    return Report(
        title="Multi-draft decoding: rules and methods to compare with",
        machine=f"{', '.join(where)} thread(s)",
        notes=[],
        tables=[*tables, *others],
        screen=[*([] if failed is None else [failed]), *screen],
        sections=[*sections, *([Section("Beside these", {}, [], others)] if others else [])],
    )


def _labels(cell: DecodingCell) -> tuple[str, str]:
    together = [f"batch {cell.batch}"] if cell.batch > 1 else []
    setting = ", ".join([f"T = {cell.temperature:g}", *together, *shape(cell)])
    return setting, ", ".join([cell.name, *beside_shape(cell)])


KIND = BenchmarkKind(
    name="decoding",
    cell_of=decoding_cell_of,
    cell=DecodingCell,
    frame=frame,
    finished=(pl.col("tokens") > 0) & ~pl.col("trial"),
    time=TIME,
    figure=EFFICIENCY,
    labels=_labels,
    report=report,
    pictures=lambda identity: [PICTURE, DRAFTERS],
)
