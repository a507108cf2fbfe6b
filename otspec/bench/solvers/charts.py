"""The charts of the benchmark of solvers: time at every setting, and time and acceptance over k and over n."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from otspec.bench.solvers.panels import Panel, panels_of, written
from otspec.bench.solvers.summary import Optima, Summary
from otspec.bench.solvers.tables import labels_of
from otspec.reporting.charts import HOVER, Axis, Group, ends_of, hover_text, line_chart
from otspec.reporting.columns import milliseconds
from otspec.reporting.layers import words
from otspec.reporting.means import SERIES, Row, number
from otspec.reporting.published import OURS, PUBLISHED, PublishedTime
from otspec.reporting.style import INK, MARKERS, Look, hue_of, looks

BEST = "alpha*"
MS = "ms per token"
OPEN = "An open end, dotted to the top, marks a lower bound: the time budget of the cell ended inside a position."


def series_of(summaries: Sequence[Summary], profile: str = "") -> dict[str, Look]:
    """The solvers as charts show them, by label, and what the paper has of a profile, hollow."""
    labels = labels_of(summaries)
    ours = {labels[solver]: look for solver, look in looks(labels).items()}
    printed = dict.fromkeys(method for _, method, _ in _printed(summaries, profile))
    markers = dict(zip(OURS.values(), MARKERS[1:], strict=True))
    hues = {method: hue_of(solver) for solver, method in OURS.items()}
    return ours | {f"paper: {method}": Look(hues[method], markers[method], hollow=True) for method in printed}


def chart_groups(summaries: Sequence[Summary], known: Optima, profile: str = "", suffix: str = "") -> list[Group]:
    """What a report shows of the cells of one source of positions.

    Parameters
    ----------
    summaries : sequence of Summary
    known : mapping
        alpha* by data, k, n and position.
    profile : str
        Name of the data where the paper has times for them as they were measured.
    suffix : str
        What the names of the pictures end in.
    """
    styles = series_of(summaries, profile)
    groups = [_time_at_settings(summaries, styles, profile), _best_at_settings(summaries, known)]
    groups = [group._replace(picture=f"report{suffix}.png") for group in groups]
    panels = panels_of(summaries)
    if panels:
        lines = [_over_k_and_n(figure, panels, summaries) for figure in (TIME, ACCEPTANCE, SHORTFALL)]
        groups += [group._replace(picture=f"lines{suffix}.png") for group in lines]
    else:
        alone = [Panel("k", f"n = {summaries[0].cell.n}", list(summaries))]
        groups += [_over_k_and_n(figure, alone, summaries) for figure in (ACCEPTANCE, SHORTFALL)]
    return [group for group in groups if group.charts]


def _time_at_settings(summaries: Sequence[Summary], styles: Mapping[str, Look], profile: str) -> Group:
    """Times side by side at every (k, n), and those that the paper prints, hollow."""
    labels = labels_of(summaries)
    rows = [
        {SERIES: labels[one.cell.solver], "x": one.cell.setting, **row}
        for one in summaries
        if (row := _time(one)) is not None
    ]
    rows += [
        {
            SERIES: f"paper: {method}",
            "x": setting,
            "y": time.ms,
            "open": time.lower_bound,
            HOVER: hover_text(method, ms=time),
        }
        for setting, method, time in _printed(summaries, profile)
    ]
    across = Axis("(k, n): draft tokens kept, drafts per position", places=_settings(summaries))
    upright = Axis(MS, log=10, ends=ends_of(rows, 10))
    hollow = " Hollow: the paper's mean." if any(look.hollow for look in styles.values()) else ""
    charts = [line_chart(rows, across, upright, styles, joined=False, height=300)] if rows else []
    return Group("Time", f"Median and quartiles. {OPEN}{hollow}", charts, columns=1)


def _best_at_settings(summaries: Sequence[Summary], known: Optima) -> Group:
    """Mean alpha* at every (k, n)."""
    cells = {one.cell.setting: (one.cell.data, one.cell.k, one.cell.n) for one in summaries}
    found = {setting: [best for key, best in known.items() if key[:3] == cell] for setting, cell in cells.items()}
    means = {setting: float(np.mean(values)) for setting, values in found.items() if values}
    rows: list[Row] = [
        {SERIES: BEST, "x": setting, "y": mean, HOVER: hover_text(BEST, mean=f"{mean:.4f}")}
        for setting, mean in means.items()
    ]
    axes = Axis("(k, n)", places=_settings(summaries)), Axis("mean alpha*")
    chart = line_chart(rows, *axes, {BEST: Look(INK, MARKERS[2])}, joined=False, height=100)
    numbers = words([{"x": row["x"], "y": row["y"], "text": f"{row['y']:.3f}"} for row in rows], align="left", right=8)
    note = "Optimal acceptance, mean over every position measured there."
    return Group("Optimum", note, [chart + numbers] if rows else [], columns=1)


def _settings(summaries: Sequence[Summary]) -> list[str]:
    return list(dict.fromkeys(one.cell.setting for one in summaries))


def _printed(summaries: Sequence[Summary], profile: str) -> list[tuple[str, str, PublishedTime]]:
    """Setting, method and time of what the paper prints for the settings of a profile."""
    _, published = PUBLISHED.get(profile, ("", {}))
    cells = {(one.cell.k, one.cell.n): one.cell.setting for one in summaries}
    return [
        (cells[at], method, time)
        for at, row in published.items()
        for method in OURS.values()
        if at in cells and (time := row[method]) is not None
    ]


class Figure(NamedTuple):
    """A figure of a cell, drawn over k and over n."""

    title: str
    note: str
    axis: Axis
    point: Callable[[Panel, Summary], Row | None]
    """A point of a panel; None where a cell has none."""


def _over_k_and_n(figure: Figure, panels: Sequence[Panel], summaries: Sequence[Summary]) -> Group:
    """A chart for every panel that has points, all to one scale."""
    labels, styles = labels_of(summaries), series_of(summaries)
    found = [[_placed(figure, panel, one, labels) for one in panel.summaries] for panel in panels]
    rows = [[row for row in mine if row is not None] for mine in found]
    upright = replace(figure.axis, ends=ends_of([row for mine in rows for row in mine], figure.axis.log))
    charts = [
        line_chart(
            mine,
            Axis(panel.axis, places=[written(tick) for tick in panel.ticks], apart=0.55),
            upright,
            styles,
            f"over {panel.over}, {panel.fixed}",
        )
        for panel, mine in zip(panels, rows, strict=True)
        if mine
    ]
    return Group(figure.title, figure.note, charts)


def _placed(figure: Figure, panel: Panel, one: Summary, labels: Mapping[str, str]) -> Row | None:
    point = figure.point(panel, one)
    return None if point is None else {SERIES: labels[one.cell.solver], "x": written(panel.place(one)), **point}


def _time(one: Summary) -> Row | None:
    if one.refused:
        return None
    low, median, high = one.times.quartiles
    bound = ">= " if one.times.lower_bound else ""
    figures = {
        "median ms": milliseconds(median),
        "quartiles ms": f"{milliseconds(low)} to {milliseconds(high)}",
        "mean ms": None if one.times.mean is None else bound + milliseconds(one.times.mean),
    }
    return {"y": median, "low": low, "high": high, "open": one.times.lower_bound, HOVER: _hover(one, figures)}


def _acceptance(panel: Panel, one: Summary) -> Row | None:
    value, error = one.plans.acceptance, one.plans.acceptance_error
    if value is None:
        return None
    best = None if one.plans.optimum is None else f"{one.plans.optimum:.4f}"
    figures = {"acceptance": _with_error(f"{value:.4f}", error), "alpha* there": best}
    return {**_interval(value, error), "part": not panel.whole(one), HOVER: _hover(one, figures)}


def _shortfall(one: Summary) -> Row | None:
    if one.plans.acceptance is None or one.plans.optimum is None:
        return None
    value, error = one.plans.acceptance - one.plans.optimum, one.plans.shortfall_error
    return {**_interval(value, error), HOVER: _hover(one, {"difference": _with_error(f"{value:+.2e}", error)})}


def _hover(one: Summary, figures: Mapping[str, str | None]) -> Mapping[str, str]:
    return hover_text(
        one.cell.solver, **{"(k, n)": one.cell.setting}, **figures, solved=f"{one.solved}/{one.positions}"
    )


def _interval(value: float, error: float) -> Row:
    return {"y": value, "low": number(value - error), "high": number(value + error)}


def _with_error(shown: str, error: float) -> str:
    return shown if math.isnan(error) else f"{shown} ± {error:.1e}"


TIME = Figure("Time over k and n", f"Median and quartiles. {OPEN}", Axis(MS, log=10), lambda _, one: _time(one))
ACCEPTANCE = Figure(
    "Acceptance",
    "Mean over positions, and its standard error. Hollow: over some of the positions only, as the solver gave "
    "up the others; it compares with nothing.",
    Axis("acceptance"),
    _acceptance,
)
SHORTFALL = Figure(
    "Acceptance minus alpha*",
    "Over the same positions, with the standard error of the difference: 0 is the certified optimum.",
    Axis("acceptance minus alpha*"),
    lambda _, one: _shortfall(one),
)
