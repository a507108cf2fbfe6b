"""Charts by Altair, in the one style of `otspec.reporting.style`, for pages and pictures alike.

A chart is Altair's own `LayerChart`: more marks are added with ``+``, right of it to be drawn above, those of
`otspec.reporting.layers` among them.  `otspec.reporting.pictures` draws charts, and `otspec.reporting.page` lets them
answer a pointer; vl-convert carries the scripts and fonts of both, so that no network is needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np

from otspec.extras import require
from otspec.reporting.means import SERIES, Row
from otspec.reporting.style import DARK, LIGHT, Style, Theme

require("altair")  # where it is missing, the error says how to get it

import altair as alt  # noqa: E402
from altair.utils.schemapi import debug_mode  # noqa: E402

Channel = TypeVar("Channel")
HOVER = "hover"
"""The field with what a hover shows on a page: a mapping of words."""
SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
"""Which Vega-Lite this is; nobody fetches it."""
FONT = "system-ui, sans-serif"
HEIGHT, STEP = 240, 24
"""Pixels of a chart, and of a line of words in one with horizontal bars."""
MARGIN = 0.04
"""Share of an axis beyond the figures at its ends."""
DECADES = {
    "condition": {"test": "abs(log(datum.value) / LN10 - round(log(datum.value) / LN10)) < 1e-6", "value": 1},
    "value": 0.3,
}
"""Grid lines of a logarithmic axis: powers of ten before the others."""


@dataclass(frozen=True)
class Axis:
    """One axis of a chart."""

    title: str = ""
    """What it shows, with its unit."""
    log: int = 0
    """Base of a logarithmic axis; 0 for a linear one."""
    zero: bool = False
    """Whether a linear axis begins at 0."""
    ends: tuple[float, float] | None = None
    """Where it begins and ends; by default where the figures do."""
    places: Sequence[str] | None = None
    """Words, in their order, in place of numbers; they may have several lines."""
    apart: float = 0.25
    """Share of the way between two places that is left free, where series stand beside each other at each."""
    ticks: Sequence[float] | None = None
    """Where numbers are written; by default where there is room."""
    form: str = ""
    """How numbers are written, in the notation of d3-format, such as ``.0%``."""
    falling: bool = False
    """Whether it runs from large to small."""
    grid: bool | None = None
    """Whether it has grid lines; by default an upright axis has."""

    def along(self, letter: str, field: str = "") -> Any:
        """The channel ``x`` or ``y`` with this axis, of the field of that name or of another."""
        channel = alt.X if letter == "x" else alt.Y
        scale, axis = self._of_numbers() if self.places is None else self._of_words()
        kind = {"type": "quantitative"} if self.places is None else {"type": "nominal", "sort": list(self.places)}
        return channel(field=field or letter, title=self.title or None, scale=scale, axis=axis, **kind)

    def _of_words(self) -> tuple[alt.Scale, alt.Axis]:
        scale = alt.Scale(type="band", domain=list(self.places or ()), paddingInner=self.apart)
        return scale, alt.Axis(grid=False, labelExpr="split(datum.value, '\\n')")

    def _of_numbers(self) -> tuple[alt.Scale, alt.Axis]:
        scale: dict[str, Any] = {"type": "log", "base": self.log, "nice": False} if self.log else {"zero": self.zero}
        if self.ends is not None:
            scale |= {"domain": list(self.ends), "nice": False}
        elif not self.zero:
            scale |= {"padding": 8}
        if self.falling:
            scale["reverse"] = True
        axis: dict[str, Any] = {"gridOpacity": DECADES} if self.log == 10 else {}
        form = self.form or (",.6~g" if self.ticks else None)
        chosen = {"values": self.ticks and list(self.ticks), "format": form, "grid": self.grid}
        axis |= {name: value for name, value in chosen.items() if value is not None}
        return alt.Scale(**scale), alt.Axis(**axis)


class Group(NamedTuple):
    """Charts that belong together, under a heading."""

    title: str
    note: str
    charts: Sequence[alt.LayerChart]
    columns: int = 2
    """How many charts stand side by side in a picture, at most; one that stands alone is wide on a page, too."""
    picture: str = ""
    """Name of the picture that shows the group, as in ``report.png``; a group without one is on the page alone."""


def line_chart(
    rows: Sequence[Row],
    x: Axis,
    y: Axis,
    styles: Mapping[str, Style],
    title: str = "",
    *,
    joined: bool = True,
    pointed: bool = True,
    size: int = 45,
    height: int = HEIGHT,
) -> alt.LayerChart:
    """Lines with intervals; over places, the series stand beside each other at each.

    Parameters
    ----------
    rows : sequence of mappings
        Each with `SERIES`, ``x`` (a number, or one of the places of the axis) and ``y``.  ``low`` and ``high`` are the
        ends of an interval, and None or absent where there is none; ``open`` marks a lower bound, drawn with an open
        end; ``part`` marks what is over a part of the data only, drawn hollow.
    x, y : Axis
    styles : mapping of str to Style
        How each series is drawn.
    title : str
    joined, pointed : bool
        Whether lines join the points of a series, and whether the points have markers.
    size : int
        Of the markers, their area in square pixels.
    height : int
        Pixels.
    """
    marked = [{**row, "part": True} if styles[row[SERIES]].hollow else row for row in rows]
    base = alt.Chart().encode(x.along("x"), y.along("y"), colours_of(styles))
    if x.places is not None:
        base = base.encode(xOffset=alt.XOffset(SERIES, type="nominal", scale=alt.Scale(domain=list(styles))))
    layers = _intervals(marked, base.mark_rule(), y, "y")
    if joined:
        dashes = by_series(alt.StrokeDash, styles, [style.strokes for style in styles.values()])
        layers.append(base.mark_line().encode(dashes).transform_filter("!datum.part"))
    if any(row.get("open") for row in marked):
        arrow = base.mark_point(shape="triangle-up", size=55, filled=True).encode(y=alt.value(4))
        layers += [
            one.transform_filter("datum.open")
            for one in (base.mark_rule(strokeDash=[2, 3]).encode(y2=alt.value(0)), arrow)
        ]
    if pointed:
        layers += _points(marked, base, styles, size)
    return chart_of(layers, marked, title, height)


def column_chart(
    rows: Sequence[Row], x: Axis, y: Axis, styles: Mapping[str, Style], title: str = "", *, height: int = HEIGHT
) -> alt.LayerChart:
    """Upright columns beside each other at each place, with intervals.

    Parameters
    ----------
    rows : sequence of mappings
        As of `line_chart`; ``pale`` is true for columns that stand back.
    x : Axis
        With places.
    y : Axis
    styles : mapping of str to Style
    title : str
    height : int
        Pixels.
    """
    beside = alt.XOffset(SERIES, type="nominal", scale=alt.Scale(domain=list(styles), paddingInner=0.1))
    upright = replace(y, zero=True)
    base = alt.Chart().encode(x.along("x"), upright.along("y"), xOffset=beside)
    fills = by_series(alt.Color, styles, [style.fill() for style in styles.values()])
    columns = base.mark_bar().encode(
        fills, fillOpacity=alt.when("datum.pale").then(alt.value(0.4)).otherwise(alt.value(1))
    )
    return chart_of([columns, *_intervals(rows, base.mark_rule(color=LIGHT.ink), upright, "y")], rows, title, height)


def dot_chart(rows: Sequence[Row], x: Axis, styles: Mapping[str, Style], title: str = "") -> alt.LayerChart:
    """Points with intervals, one above the other.

    Parameters
    ----------
    rows : sequence of mappings
        Each with `SERIES`, ``x``, ``low`` and ``high`` (None where there is no interval), and ``y``, the words of its
        line; ``part`` marks what is drawn hollow.
    x : Axis
    styles : mapping of str to Style
    title : str
    """
    lines, across = _lines(rows), replace(x, grid=True)
    base = alt.Chart().encode(across.along("x"), lines.along("y"), colours_of(styles))
    layers = [*_intervals(rows, base.mark_rule(strokeWidth=2), across, "x"), *_points(rows, base, styles, 60)]
    return chart_of(layers, rows, title, _height(lines))


def bar_chart(rows: Sequence[Row], x: Axis, parts: Mapping[str, Style], title: str = "") -> alt.LayerChart:
    """Bars made of parts, one above the other.

    Parameters
    ----------
    rows : sequence of mappings
        Each with `SERIES`, ``part``, one of the parts, ``x``, its length, and ``y``, the words of its bar.
    x : Axis
    parts : mapping of str to Style
        In the order in which they follow each other.
    title : str
    """
    lines, places = _lines(rows), {part: at for at, part in enumerate(parts)}
    shades = by_series(alt.Color, parts, [style.colour() for style in parts.values()], "part")
    bars = alt.Chart().mark_bar()
    bars = bars.encode(replace(x, grid=True, zero=True).along("x").stack("zero"), lines.along("y"))
    bars = bars.encode(shades.legend(orient="top", title=None, columns=3), order=alt.Order("at", type="quantitative"))
    return chart_of([bars], [{**row, "at": places[row["part"]]} for row in rows], title, _height(lines))


def diagram(x: Axis, y: Axis, layers: Sequence[alt.Chart], title: str = "", height: int = HEIGHT) -> alt.LayerChart:
    """A chart of marks that have rows of their own, as those of `otspec.reporting.layers` have, over two axes."""
    axes = alt.Chart(data_of([])).mark_point().encode(x.along("x"), y.along("y"))
    return layered([axes, *layers], height=height, **({"title": title} if title else {}))


def chart_of(layers: Sequence[alt.Chart], rows: Iterable[Row], title: str, height: int) -> alt.LayerChart:
    """Marks over one set of rows."""
    return layered(layers, data=data_of(rows), height=height, **({"title": title} if title else {}))


def layered(layers: Sequence[alt.Chart | alt.LayerChart], **settings: Any) -> alt.LayerChart:
    """Marks above each other, with settings of the whole."""
    return alt.LayerChart(layer=list(layers), **settings)


def data_of(rows: Iterable[Row]) -> alt.Data:
    """Rows as Altair takes them, without numpy's own numbers, which JSON does not have."""
    values = [{name: one.item() if isinstance(one, np.generic) else one for name, one in row.items()} for row in rows]
    with debug_mode(False):  # to check each row by the grammar takes as long as to draw it
        return alt.Data(values=values)  # type: ignore[no-untyped-call]


def spec_of(chart: alt.Chart | alt.LayerChart) -> dict[str, Any]:
    """A chart in Vega-Lite that stands on a sheet or a page, which has the settings of all."""
    spec: dict[str, Any] = chart.to_dict(validate=False)  # the tests validate charts of every sort
    return {name: value for name, value in spec.items() if name not in ("config", "$schema")}


def title_of(chart: alt.LayerChart) -> str:
    """The title of a chart; nothing where it has none."""
    return "" if chart.title is alt.Undefined else str(chart.title)


def rows_of(chart: alt.LayerChart) -> list[Row]:
    """What a chart shows."""
    data: Any = chart.data
    rows: list[Row] = data.values
    return rows


def hover_text(title: str, **figures: Any) -> dict[str, str]:
    """What a hover shows: a title, and figures by their names, underscores as spaces, those that are None left out."""
    shown = {name.replace("_", " "): str(value) for name, value in figures.items() if value is not None}
    return {"title": title, **shown}


def ends_of(rows: Sequence[Row], log: int = 0) -> tuple[float, float] | None:
    """Ends of an upright axis that charts of these rows share, a little beyond the least and the most that they show.

    Parameters
    ----------
    rows : sequence of mappings
        As of `line_chart`.
    log : int
        As of `Axis`.

    Returns
    -------
    (float, float) or None
        None where there is one value only, or no row.
    """
    values = [row[name] for row in rows for name in ("y", "low", "high") if row.get(name) is not None]
    low, high = min(values, default=0.0), max(values, default=0.0)
    if low == high:
        return None
    if log:
        beyond = (high / low) ** MARGIN
        return low / beyond, high * beyond
    beyond = (high - low) * MARGIN
    return low - beyond, high + beyond


def by_series(
    channel: type[Channel], styles: Mapping[str, Style], values: Sequence[Any], field: str = SERIES
) -> Channel:
    """A channel, such as `altair.Color`, that differs by series; the key of a picture, or chips of a page, explain it.

    Parameters
    ----------
    channel : type
    styles : mapping of str to Style
    values : sequence
        What stands for each series, in their order.
    field : str
        Where rows have the name of their series.
    """
    scale = alt.Scale(domain=list(styles), range=list(values))
    return channel(field=field, type="nominal", scale=scale, legend=None)  # type: ignore[call-arg]


def colours_of(styles: Mapping[str, Style], field: str = SERIES) -> alt.Color:
    """The encoding of colours by series."""
    return by_series(alt.Color, styles, [style.colour() for style in styles.values()], field)


def shapes_of(styles: Mapping[str, Style], field: str = SERIES) -> alt.Shape:
    """The encoding of markers by series."""
    return by_series(alt.Shape, styles, [style.marker.vega for style in styles.values()], field)


def _lines(rows: Sequence[Row]) -> Axis:
    """An upright axis of the words of lines, in their order."""
    return Axis(places=list(dict.fromkeys(row["y"] for row in rows)))


def _height(lines: Axis) -> int:
    return STEP * max(len(lines.places or ()), 2)


def _intervals(rows: Sequence[Row], rule: alt.Chart, axis: Axis, letter: str) -> list[alt.Chart]:
    """Intervals along an axis, where rows have them."""
    if not any(row.get("low") is not None for row in rows):
        return []
    ends = {letter: axis.along(letter, "low"), f"{letter}2": "high"}
    return [rule.encode(**ends).transform_filter("isValid(datum.low)")]


def _points(rows: Sequence[Row], base: alt.Chart, styles: Mapping[str, Style], size: int) -> list[alt.Chart]:
    """Markers, filled, and hollow for what is over a part of the data only."""
    shaped = base.encode(shapes_of(styles))
    filled = shaped.mark_point(filled=True, size=size).transform_filter("!datum.part")
    hollow = shaped.mark_point(filled=False, size=size).transform_filter("datum.part")
    return [filled, hollow] if any(row.get("part") for row in rows) else [filled]


def config(theme: Theme, words: int = 180) -> dict[str, Any]:
    """The settings of Vega that go with light or dark paper; words beside an axis are cut after so many pixels."""
    letters = {"labelColor": theme.ink, "titleColor": theme.ink, "labelFontSize": 12, "titleFontSize": 12}
    return {
        "font": FONT,
        "background": "transparent",
        "view": {"stroke": None},
        "axis": {
            **letters,
            "titleFontWeight": "normal",
            "gridColor": theme.faint,
            "domainColor": theme.grey,
            "tickColor": theme.grey,
        },
        "axisX": {"labelAngle": 0, "labelFlush": False, "grid": False, "tickCount": 5},
        "axisY": {"domain": False, "ticks": False, "tickCount": 6, "labelLimit": words},
        "legend": letters,
        "line": {"strokeWidth": 1.6},
        "rule": {"strokeWidth": 1.4},
        "point": {"strokeWidth": 1.6, "opacity": 1},
    }


def recoloured() -> dict[str, str]:
    """What stands for the colours of the light theme on dark paper; the hues stay."""
    return dict(zip(LIGHT, DARK, strict=True))
