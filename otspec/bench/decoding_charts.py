"""The charts of the decoding benchmark, for its page: block efficiency, speed-ups, and where the time goes."""

from __future__ import annotations

from collections.abc import Sequence

from otspec.bench.decoding_report import by_rule, label, shapes, whole_label, without_paths
from otspec.bench.decoding_summary import BASELINES, DecodingSummary
from otspec.bench.drafters import compared, drafter_of
from otspec.bench.intervals import Estimate
from otspec.decode.base.metrics import Metrics
from otspec.reporting.charts import SERIES, TOLD, Axes, Chart, Group, Row, bars, dots, lines, number, told
from otspec.reporting.style import Look, looks


def series_of(summaries: Sequence[DecodingSummary]) -> dict[str, Look]:
    """The rules and methods as charts show them, by label; K and L tell no two apart."""
    return looks(dict.fromkeys(label(one) for one in summaries if one.prompts))


def chart_groups(summaries: Sequence[DecodingSummary]) -> list[Group]:
    """What a page shows of the cells of one temperature."""
    shown = [one for one in summaries if one.prompts]
    styles = series_of(shown)
    groups = [
        Group("Block efficiency", "Tokens per target call, 95 % intervals.", _efficiencies(shown, styles), wide=True),
        Group(
            "Speed-up",
            "Milliseconds a token of the baseline over those of the rule, on the same texts, 95 % intervals; the "
            "dashed line is no difference.",
            _speed_ups(shown, styles),
            wide=True,
        ),
        Group("Where the time goes", "Milliseconds per token, by phase.", [_phases(shown)] if shown else [], wide=True),
        Group("Drafters", "Share of the steps that accept so many drafts.", _drafters(shown)),
    ]
    return [group for group in groups if group.charts]


def _efficiencies(summaries: Sequence[DecodingSummary], styles: dict[str, Look]) -> list[Chart]:
    """Every rule by K, a chart for each L, as in the table of them; what has no drafts, so 1, is left out."""
    drafting = [one for one in summaries if one.cell.depth or one.cell.paths > 1]
    settings = shapes(drafting)
    charts = []
    for depth in dict.fromkeys(depth for _, depth in settings):
        counts = [paths for paths, at in settings if at == depth]
        rows: list[Row] = []
        for mine in by_rule(drafting):
            at = {(one.cell.paths, one.cell.depth): one for one in mine}
            found = ((paths, at.get((paths, depth)) or without_paths(mine, depth)) for paths in counts)
            rows += [
                {SERIES: label(one), "x": f"K = {paths}", **_interval("y", one.efficiency), TOLD: _told(one)}
                for paths, one in found
                if one is not None
            ]
        title = f"L = {depth}" if depth else "as long as the method drafts"
        axes = Axes("drafted paths", "tokens per target call")
        charts.append(lines(title, rows, [f"K = {paths}" for paths in counts], styles, axes))
    return charts


def _speed_ups(summaries: Sequence[DecodingSummary], styles: dict[str, Look]) -> list[Chart]:
    """A chart for each baseline, the fastest cell first."""
    found = {cell for one in summaries for cell in one.speed_ups}
    charts = []
    for baseline in sorted(found, key=lambda cell: BASELINES.index(cell.method)):
        beside = [(one, one.speed_ups[baseline]) for one in _fastest_first(summaries) if baseline in one.speed_ups]
        rows = [
            {SERIES: label(one), "y": whole_label(one), **_interval("x", estimate), TOLD: _told(one, baseline.method)}
            for one, estimate in beside
            if number(estimate.value) is not None
        ]
        charts.append(dots(f"over {baseline.method}", rows, styles, "times as fast", reference=1.0))
    return charts


def _phases(summaries: Sequence[DecodingSummary]) -> Chart:
    parts = looks(Metrics().seconds)
    rows = [
        {
            SERIES: label(one),
            "y": whole_label(one),
            "part": phase,
            "x": ms,
            TOLD: told(whole_label(one), **{phase: f"{ms:.2f} ms/token" for phase, ms in one.ms_per_token.items()}),
        }
        for one in _fastest_first(summaries)
        for phase, ms in one.ms_per_token.items()
    ]
    return bars("the fastest first", rows, parts, "ms per token")


def _drafters(summaries: Sequence[DecodingSummary]) -> list[Chart]:
    """Acceptance by depth, a chart for each rule and K that is measured with several drafters."""
    panels: dict[str, list[DecodingSummary]] = {}
    for one in compared(summaries):
        panels.setdefault(f"{one.cell.name}, K = {one.cell.paths}, L = {one.cell.depth}", []).append(one)
    charts = []
    for title, mine in panels.items():
        rows = [
            {
                SERIES: label(one),
                "x": str(depth),
                "y": share,
                "low": None,
                "high": None,
                TOLD: told(drafter_of(one), **{f"depth {depth}": f"{share:.2f}"}),
            }
            for one in mine
            for depth, share in enumerate(one.total.acceptance, 1)
        ]
        places = [str(depth) for depth in range(1, max(one.cell.depth for one in mine) + 1)]
        charts.append(
            lines(title, rows, places, looks(label(one) for one in mine), Axes("depth", "share", ends=(0.0, 1.0)))
        )
    return charts


def _fastest_first(summaries: Sequence[DecodingSummary]) -> list[DecodingSummary]:
    return sorted(summaries, key=lambda one: sum(one.ms_per_token.values()))


def _interval(letter: str, estimate: Estimate) -> Row:
    return {letter: number(estimate.value), "low": number(estimate.low), "high": number(estimate.high)}


def _told(one: DecodingSummary, *baselines: str) -> dict[str, str]:
    """Block efficiency and the speed-ups asked for, as the tables print them."""
    over = {
        f"over {cell.method}": found.shown(".2f") for cell, found in one.speed_ups.items() if cell.method in baselines
    }
    ms = f"{sum(one.ms_per_token.values()):.2f}"
    figures = {"block efficiency": one.efficiency.shown(".3f"), **over, "ms/token": ms, "prompts": one.prompts}
    return told(whole_label(one), **figures)
