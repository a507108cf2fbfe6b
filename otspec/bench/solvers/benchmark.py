"""The benchmark of solvers, declared: what it records and compares, and its report with the charts."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import polars as pl

from otspec.bench.frame import frame_of
from otspec.bench.intervals import Ratio
from otspec.bench.report import BenchmarkKind, Report, Run, in_words
from otspec.bench.schema import SCHEMAS
from otspec.bench.solvers.cells import Cell, Sampling, cell_of
from otspec.bench.solvers.summary import Row, summarise
from otspec.bench.solvers.tables import (
    failures_table,
    labels_of,
    over_data_table,
    overview_table,
    published_table,
    results_table,
)
from otspec.reporting.charts import HOVER, Axis, Group, ends_of, hover_text, line_chart
from otspec.reporting.layers import words
from otspec.reporting.means import SERIES
from otspec.reporting.page import Section
from otspec.reporting.published import OURS, PUBLISHED, PublishedTime
from otspec.reporting.style import INK, MARKERS, Style, hue_of, styles_of
from otspec.reporting.tables import TextTable, milliseconds

Point = dict[str, Any]
BEST = "alpha*"
MS = "ms per token"
OPEN = "An open end, dotted to the top, marks a lower bound: the time budget of the cell ended inside a position."
LETTERS = {"k": "k, draft tokens kept", "n": "n, drafts per position"}


def series_of(rows: Sequence[Row], profile: str = "") -> dict[str, Style]:
    """The solvers as charts show them, by label, and what the paper has of a profile, hollow."""
    labels = labels_of(rows)
    ours = {labels[solver]: style for solver, style in styles_of(labels).items()}
    printed = dict.fromkeys(method for _, method, _ in _printed(rows, profile))
    markers = dict(zip(OURS.values(), MARKERS[1:], strict=True))
    hues = {method: hue_of(solver) for solver, method in OURS.items()}
    return ours | {f"paper: {method}": Style(hues[method], markers[method], hollow=True) for method in printed}


def chart_groups(rows: Sequence[Row], profile: str = "", suffix: str = "") -> list[Group]:
    """What a report shows of the cells of one source of positions.

    `profile` names the data where the paper has times for them as they were measured; names of pictures end in
    `suffix`.
    """
    styles = series_of(rows, profile)
    groups = [_time_at_settings(rows, styles, profile), _best_at_settings(rows)]
    groups = [group._replace(picture=f"report{suffix}.png") for group in groups]
    panels = list(panels_of(rows))
    if panels:
        lines = [_over_k_and_n(figure, panels, rows) for figure in (TIME, ACCEPTANCE, SHORTFALL)]
        groups += [group._replace(picture=f"lines{suffix}.png") for group in lines]
    else:
        alone = [Panel("k", f"n = {rows[0]['n']}", list(rows))]
        groups += [_over_k_and_n(figure, alone, rows) for figure in (ACCEPTANCE, SHORTFALL)]
    return [group for group in groups if group.charts]


def _time_at_settings(rows: Sequence[Row], styles: Mapping[str, Style], profile: str) -> Group:
    """Times side by side at every (k, n), and those that the paper prints, hollow."""
    labels = labels_of(rows)
    points = [{SERIES: labels[one["solver"]], "x": one["setting"], **_time(one)} for one in rows if not one["refused"]]
    points += [
        {SERIES: f"paper: {method}", "x": setting, "y": time.ms, "open": time.lower_bound}
        | {HOVER: hover_text(method, ms=time)}
        for setting, method, time in _printed(rows, profile)
    ]
    across = Axis("(k, n): draft tokens kept, drafts per position", places=_settings(rows))
    upright = Axis(MS, log=10, ends=ends_of(points, 10))
    hollow = " Hollow: the paper's mean." if any(style.hollow for style in styles.values()) else ""
    charts = [line_chart(points, across, upright, styles, joined=False, height=300)] if points else []
    return Group("Time", f"Median and quartiles. {OPEN}{hollow}", charts, columns=1)


def _best_at_settings(rows: Sequence[Row]) -> Group:
    """Mean alpha* at every (k, n)."""
    best = {one["setting"]: one["best"] for one in rows if one["best"] is not None}
    points = [
        {SERIES: BEST, "x": setting, "y": mean, HOVER: hover_text(BEST, mean=f"{mean:.4f}")}
        for setting, mean in best.items()
    ]
    axes = Axis("(k, n)", places=_settings(rows)), Axis("mean alpha*")
    chart = line_chart(points, *axes, {BEST: Style(INK, MARKERS[2])}, joined=False, height=100)
    numbers = words([{"x": at, "y": mean, "text": f"{mean:.3f}"} for at, mean in best.items()], align="left", right=8)
    note = "Optimal acceptance, mean over every position measured there."
    return Group("Optimum", note, [chart + numbers] if points else [], columns=1)


def _settings(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(one["setting"] for one in rows))


def _printed(rows: Sequence[Row], profile: str) -> list[tuple[str, str, PublishedTime]]:
    """Setting, method and time of what the paper prints for the settings of a profile."""
    _, published = PUBLISHED.get(profile, ("", {}))
    cells = {(one["k"], one["n"]): one["setting"] for one in rows}
    return [
        (cells[at], method, time)
        for at, row in published.items()
        for method in OURS.values()
        if at in cells and (time := row[method]) is not None
    ]


class Panel(NamedTuple):
    """The cells that share one of k and n, against the other."""

    over: str
    """The letter that varies: k or n."""
    fixed: str
    """What does not, as in n = 2."""
    rows: Sequence[Row]

    @property
    def ticks(self) -> list[int]:
        """Values of the letter, small first; the whole vocabulary, written 0, is the largest."""
        return sorted({one[self.over] for one in self.rows}, key=_order)

    def whole(self, one: Row) -> bool:
        """Whether no solver there has plans for more positions: only then does its acceptance compare with theirs."""
        return bool(one["plans"] == max(other["plans"] for other in self.rows if other[self.over] == one[self.over]))


def panels_of(rows: Sequence[Row]) -> Iterator[Panel]:
    """A panel against k for every n, and one against n for every k, those with two values or more."""
    for over, other in (("k", "n"), ("n", "k")):
        for value in sorted({one[other] for one in rows}, key=_order):
            panel = Panel(over, f"{other} = {value or 'V'}", [one for one in rows if one[other] == value])
            if len(panel.ticks) > 1:
                yield panel


def _order(value: int) -> float:
    return value or math.inf


class Figure(NamedTuple):
    """A figure of a cell, drawn over k and over n."""

    title: str
    note: str
    axis: Axis
    point: Callable[[Panel, Row], Point | None]
    """A point of a panel; None where a cell has none."""


def _over_k_and_n(figure: Figure, panels: Sequence[Panel], rows: Sequence[Row]) -> Group:
    """A chart for every panel that has points, all to one scale."""
    labels, styles = labels_of(rows), series_of(rows)
    points = [
        [
            {SERIES: labels[one["solver"]], "x": str(one[panel.over] or "V"), **point}
            for one in panel.rows
            if (point := figure.point(panel, one)) is not None
        ]
        for panel in panels
    ]
    upright = replace(figure.axis, ends=ends_of([point for mine in points for point in mine], figure.axis.log))
    charts = [
        line_chart(
            mine,
            Axis(LETTERS[panel.over], places=[str(tick or "V") for tick in panel.ticks], apart=0.55),
            upright,
            styles,
            f"over {panel.over}, {panel.fixed}",
        )
        for panel, mine in zip(panels, points, strict=True)
        if mine
    ]
    return Group(figure.title, figure.note, charts)


def _time(one: Row) -> Point:
    bound = ">= " if one["lower_bound"] else ""
    figures = {
        "median ms": milliseconds(one["median"]),
        "quartiles ms": f"{milliseconds(one['low'])} to {milliseconds(one['high'])}",
        "mean ms": bound + milliseconds(one["mean"]),
    }
    ends = {"y": one["median"], "low": one["low"], "high": one["high"]}
    return {**ends, "open": one["lower_bound"], HOVER: _hover(one, figures)}


def _acceptance(panel: Panel, one: Row) -> Point | None:
    if one["acceptance"] is None:
        return None
    best = None if one["optimum"] is None else f"{one['optimum']:.4f}"
    return {
        **_interval(one["acceptance"], one["acceptance_error"], ".4f", one, "acceptance", {"alpha* there": best}),
        "part": not panel.whole(one),
    }


def _shortfall(one: Row) -> Point | None:
    if one["acceptance"] is None or one["optimum"] is None:
        return None
    return _interval(one["acceptance"] - one["optimum"], one["shortfall_error"], "+.2e", one, "difference", {})


def _interval(
    value: float, error: float | None, digits: str, one: Row, name: str, more: Mapping[str, str | None]
) -> Point:
    """A figure with its standard error to both sides, where it has one."""
    shown = f"{value:{digits}}" if error is None else f"{value:{digits}} ± {error:.1e}"
    ends = {"low": None, "high": None} if error is None else {"low": value - error, "high": value + error}
    return {"y": value, **ends, HOVER: _hover(one, {name: shown, **more})}


def _hover(one: Row, figures: Mapping[str, str | None]) -> Mapping[str, str]:
    solved = f"{one['solved']}/{one['positions']}"
    return hover_text(one["solver"], **{"(k, n)": one["setting"]}, **figures, solved=solved)


TIME = Figure(
    "Time over k and n",
    f"Median and quartiles. {OPEN}",
    Axis(MS, log=10),
    lambda _, one: None if one["refused"] else _time(one),
)
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


def report(run: Run) -> Report | None:
    """Tables and charts of every source of positions; None while there are no records."""
    if not run.records:
        return None
    everything, identity = summarise(run.records, run.runs), run.identity
    sampling = Sampling(identity["scheme"], identity["temperature"], identity["top_p"])
    settings = [sampling.scheme, f"temperature {sampling.temperature:g}"]
    settings += [] if sampling.top_p is None else [f"top-p {sampling.top_p:g}"]
    as_published = sampling == Sampling()
    tables: list[TextTable | None] = []
    screen: list[TextTable | None] = []
    sections = []
    for data, suffix in _suffixes(identity).items():
        rows = [one for one in everything if one["data"] == data]
        if not rows:
            continue
        title = data if as_published else f"{data}, {', '.join(settings)}"
        profile = data if as_published else ""
        overview = overview_table(rows, title)
        published = published_table(rows, profile)
        details = (results_table(rows, title), failures_table(rows), published)
        tables += [overview, *details]
        screen += [*details, overview]  # the end of a long output is what a screen shows
        groups = chart_groups(rows, profile, suffix)
        shown = [one for one in (overview, *details) if one is not None]
        sections.append(Section(title, series_of(rows, profile), groups, shown))
    if (averaged := over_data_table(everything, identity["data"])) is not None:
        tables.append(averaged)
        screen.append(averaged)
        sections.append(Section(averaged.title, {}, [], [averaged]))
    budgets = in_words(sorted({record["budget_s"] for record in run.records}))
    return Report(
        title="Multi-draft optimal transport: solvers at various (k, n)",
        machine=f"{in_words(identity['processor'])}, {in_words(identity['jobs'])} worker(s)",
        notes=[f"Drafts: {', '.join(settings)}. Seed {identity['seed']}; {budgets} s per cell."],
        tables=[one for one in tables if one is not None],
        screen=[one for one in screen if one is not None],
        sections=sections,
    )


def pictures(identity: Mapping[str, Any]) -> list[str]:
    """For each source of positions the settings side by side, then the lines over k and n."""
    return [f"{kind}{suffix}.png" for suffix in _suffixes(identity).values() for kind in ("report", "lines")]


def _suffixes(identity: Mapping[str, Any]) -> dict[str, str]:
    """What the names of pictures end in, by data: nothing where there is one source."""
    sources = identity["data"]
    if len(sources) == 1:
        return dict.fromkeys(sources, "")
    return {data: f"_{at}_{re.sub(r'[^a-zA-Z0-9.-]+', '_', data)}" for at, data in enumerate(sources, 1)}


def _labels(cell: Cell) -> tuple[str, str]:
    return f"{cell.data} {cell.setting}".strip(), cell.solver


KIND = BenchmarkKind(
    name="solvers",
    cell_of=cell_of,
    cell=Cell,
    frame=lambda records: frame_of(records, SCHEMAS["solvers"]).with_columns(prompt="position", place=pl.lit(0)),
    size=lambda cell: cell.size,
    finished=pl.col("solved"),
    paired="positions",
    time=Ratio("ms", 1e3 * pl.col("wall_s")),
    figure=Ratio("acceptance", pl.col("acceptance")),
    labels=_labels,
    report=report,
    pictures=pictures,
)
