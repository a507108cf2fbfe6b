"""The charts of a benchmark, for its page: time, acceptance, and what the latter lacks, over k and over n."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from otspec.bench.panels import Panel, panels_of, written
from otspec.bench.report import labels_of, milliseconds
from otspec.bench.summary import Summary
from otspec.reporting.charts import SERIES, TOLD, Axes, Group, Row, ends_of, lines, number, told
from otspec.reporting.style import Look, looks


def series_of(summaries: Sequence[Summary]) -> dict[str, Look]:
    """The solvers as charts show them, by label."""
    labels = labels_of(summaries)
    return {labels[solver]: look for solver, look in looks(labels).items()}


def chart_groups(summaries: Sequence[Summary]) -> list[Group]:
    """What a page shows of the cells of one source of positions."""
    labels, styles = labels_of(summaries), series_of(summaries)
    panels = panels_of(summaries) or [Panel("k", f"n = {summaries[0].cell.n}", list(summaries))]

    def group(
        title: str, note: str, axis: str, row: Callable[[Panel, Summary], Row | None], log: bool = False
    ) -> Group:
        found = [
            (panel, [one_row(panel, one, shown) for one in panel.summaries if (shown := row(panel, one)) is not None])
            for panel in panels
        ]
        ends = ends_of([shown for _, rows in found for shown in rows])
        charts = [
            lines(
                f"over {panel.over}, {panel.fixed}",
                rows,
                [written(tick) for tick in panel.ticks],
                styles,
                Axes(panel.axis, axis, log, ends),
            )
            for panel, rows in found
            if rows
        ]
        return Group(title, note, charts)

    def one_row(panel: Panel, one: Summary, shown: Row) -> Row:
        return {SERIES: labels[one.cell.solver], "x": written(panel.place(one)), **shown}

    groups = [
        group(
            "Time",
            "Median and quartiles. An open end, dotted to the top, marks a lower bound: the time budget of the cell "
            "ended inside a position.",
            "ms per token",
            _time,
            log=True,
        ),
        group(
            "Acceptance",
            "Mean over positions, and its standard error. Hollow: over some of the positions only, as the solver gave "
            "up the others; it compares with nothing.",
            "acceptance",
            _acceptance,
        ),
        group(
            "Acceptance minus alpha*",
            "Over the same positions, with the standard error of the difference: 0 is the certified optimum.",
            "acceptance minus alpha*",
            _shortfall,
        ),
    ]
    return [one for one in groups if one.charts]


def _time(panel: Panel, one: Summary) -> Row | None:
    if one.refused:
        return None
    low, median, high = one.quartiles_ms
    bound = ">= " if one.lower_bound else ""
    return {
        "y": median,
        "low": low,
        "high": high,
        "open": one.lower_bound,
        TOLD: _told(
            one,
            median_ms=milliseconds(median),
            quartiles_ms=f"{milliseconds(low)} to {milliseconds(high)}",
            mean_ms=None if one.mean_ms is None else bound + milliseconds(one.mean_ms),
        ),
    }


def _acceptance(panel: Panel, one: Summary) -> Row | None:
    if one.acceptance is None:
        return None
    shown = f"{one.acceptance:.4f}"
    return {
        **_interval(one.acceptance, one.acceptance_error),
        "part": not panel.whole(one),
        TOLD: _told(
            one,
            acceptance=_with_error(shown, one.acceptance_error),
            **{"alpha* there": None if one.optimum is None else f"{one.optimum:.4f}"},
        ),
    }


def _shortfall(panel: Panel, one: Summary) -> Row | None:
    if one.acceptance is None or one.optimum is None:
        return None
    value = one.acceptance - one.optimum
    return {
        **_interval(value, one.shortfall_error),
        TOLD: _told(one, difference=_with_error(f"{value:+.2e}", one.shortfall_error)),
    }


def _told(one: Summary, **figures: str | None) -> Mapping[str, str]:
    solved = f"{one.solved}/{one.positions}"
    return told(one.cell.solver, **{"(k, n)": one.cell.setting}, **figures, solved=solved)


def _interval(value: float, error: float) -> Row:
    return {"y": value, "low": number(value - error), "high": number(value + error)}


def _with_error(shown: str, error: float) -> str:
    return shown if math.isnan(error) else f"{shown} ± {error:.1e}"
