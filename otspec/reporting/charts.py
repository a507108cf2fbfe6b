"""Charts as data: Vega-Lite, in the one style of `otspec.reporting.style`, for pages and pictures alike.

Vega-Lite rather than Plotly or Bokeh: its bundle takes 0.9 MB of a page (Plotly 4.7), its charts are data with a
grammar, and vl-convert carries the bundle and fonts, so that no network is needed.  A chart is made without optional
packages; `otspec.reporting.pictures` draws it, and `otspec.reporting.page` lets it answer a pointer.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from otspec.reporting.style import DARK, LIGHT, Look, Theme

Row = dict[str, Any]
"""A point of a chart: the value of every field, `SERIES` among them."""
Layer = dict[str, Any]
"""A mark with its encoding, as Vega-Lite has it; rows and axes that it does not name are those of its chart."""
SERIES = "series"
"""The field that says which line, dot or column a point belongs to."""
HOVER = "hover"
"""The field with what a hover shows on a page: a mapping of words."""
SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
"""Which Vega-Lite this is; nobody fetches it."""
FONT = "system-ui, sans-serif"
HEIGHT, STEP = 240, 24
"""Pixels of a chart, and of a line of words in one whose bars lie."""
MARGIN = 0.04
"""Share of an axis beyond the figures at its ends."""


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
    """How numbers are written, as d3-format has it: ``.0%``, say."""
    falling: bool = False
    """Whether it runs from large to small."""
    grid: bool | None = None
    """Whether it has grid lines; by default an upright axis has."""

    def channel(self) -> dict[str, Any]:
        """Type, scale and axis of an encoding, as Vega-Lite has them."""
        return {"title": self.title or None, **(self._of_numbers() if self.places is None else self._of_words())}

    def _of_words(self) -> dict[str, Any]:
        assert self.places is not None
        scale = {"type": "band", "domain": list(self.places), "paddingInner": self.apart}
        axis = {"grid": False, "labelExpr": "split(datum.value, '\\n')"}
        return {"type": "nominal", "sort": list(self.places), "scale": scale, "axis": axis}

    def _of_numbers(self) -> dict[str, Any]:
        scale: dict[str, Any] = {"type": "log", "base": self.log, "nice": False} if self.log else {"zero": self.zero}
        if self.ends is not None:
            scale |= {"domain": list(self.ends), "nice": False}
        elif not self.zero:
            scale |= {"padding": 8}
        if self.falling:
            scale["reverse"] = True
        axis: dict[str, Any] = {"gridOpacity": DECADES} if self.log == 10 else {}
        form = self.form or (",.6~g" if self.ticks else None)
        given = {"values": self.ticks and list(self.ticks), "format": form, "grid": self.grid}
        return {
            "type": "quantitative",
            "scale": scale,
            "axis": axis | {k: v for k, v in given.items() if v is not None},
        }


DECADES = {
    "condition": {"test": "abs(log(datum.value) / LN10 - round(log(datum.value) / LN10)) < 1e-6", "value": 1},
    "value": 0.3,
}
"""Grid lines of a logarithmic axis: powers of ten before the others."""


@dataclass(frozen=True)
class Chart:
    """Marks over two axes.  More of `otspec.reporting.layers` is added with ``+``: right of it to be drawn above."""

    title: str
    rows: Sequence[Row]
    """Of all layers that have none of their own."""
    x: Axis
    y: Axis
    layers: Sequence[Layer]
    height: int = HEIGHT
    """Pixels."""

    def __add__(self, layers: Sequence[Layer]) -> Chart:
        return replace(self, layers=[*self.layers, *layers])

    def __radd__(self, layers: Sequence[Layer]) -> Chart:
        return replace(self, layers=[*layers, *self.layers])

    @property
    def spec(self) -> dict[str, Any]:
        """The chart in Vega-Lite, but for its title and its width: which depend on where it stands."""
        layers = [self._on_axes(one) for one in self.layers]
        return {"data": {"values": plain(self.rows)}, "height": self.height, "layer": layers}

    def _on_axes(self, one: Layer) -> Layer:
        """A layer whose places are of this chart's axes; what is placed by pixels stays."""
        encoding = dict(one["encoding"])
        for letter, axis in (("x", self.x), ("y", self.y)):
            if {"field", "datum"} & encoding.get(letter, {}).keys():
                encoding[letter] = {**axis.channel(), **encoding[letter]}
        return {**one, "encoding": encoding}


class Group(NamedTuple):
    """Charts that belong together, under a heading."""

    title: str
    note: str
    charts: Sequence[Chart]
    columns: int = 2
    """How many charts stand side by side in a picture, at most; one that stands alone is wide on a page, too."""
    picture: str = ""
    """Name of the picture that shows the group, as in ``report.png``; a group without one is on the page alone."""


def line_chart(
    rows: Sequence[Row],
    x: Axis,
    y: Axis,
    styles: Mapping[str, Look],
    title: str = "",
    *,
    joined: bool = True,
    pointed: bool = True,
    size: int = 45,
    height: int = HEIGHT,
) -> Chart:
    """Lines with intervals; over places, the series stand beside each other at each.

    Parameters
    ----------
    rows : sequence of mappings
        Each with `SERIES`, ``x`` (a number, or one of the places of the axis) and ``y``.  ``low`` and ``high`` are the
        ends of an interval, and None or absent where there is none; ``open`` marks a lower bound, drawn with an open
        end; ``part`` marks what is over a part of the data only, drawn hollow.
    x, y : Axis
    styles : mapping of str to Look
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
    base: dict[str, Any] = {"x": {"field": "x"}, "y": {"field": "y"}, "color": colours_of(styles)}
    if x.places is not None:
        base["xOffset"] = {"field": SERIES, "type": "nominal", "scale": {"domain": list(styles)}}
    layers = _intervals(marked, base)
    if joined:
        dashes = by_series(styles, [look.strokes for look in styles.values()])
        layers.append(layer("line", {**base, "strokeDash": dashes}, "!datum.part"))
    if any(row.get("open") for row in marked):
        rising = {**base, "y2": {"value": 0}}
        layers.append(layer({"type": "rule", "strokeDash": [2, 3]}, rising, "datum.open"))
        arrow = {"type": "point", "shape": "triangle-up", "size": 55, "filled": True}
        layers.append(layer(arrow, {**base, "y": {"value": 4}}, "datum.open"))
    if pointed:
        layers += _points(marked, {**base, "shape": _shapes(styles)}, size)
    return Chart(title, marked, x, y, layers, height)


def column_chart(
    rows: Sequence[Row], x: Axis, y: Axis, styles: Mapping[str, Look], title: str = "", *, height: int = HEIGHT
) -> Chart:
    """Upright columns beside each other at each place, with intervals.

    Parameters
    ----------
    rows : sequence of mappings
        As of `line_chart`; ``pale`` is true for columns that stand back.
    x : Axis
        With places.
    y : Axis
    styles : mapping of str to Look
    title : str
    height : int
        Pixels.
    """
    beside = {"field": SERIES, "type": "nominal", "scale": {"domain": list(styles), "paddingInner": 0.1}}
    base = {"x": {"field": "x"}, "y": {"field": "y"}, "xOffset": beside}
    pale = {"condition": {"test": "datum.pale", "value": 0.4}, "value": 1}
    fills = by_series(styles, [look.fill() for look in styles.values()])
    columns = layer("bar", {**base, "color": fills, "fillOpacity": pale})
    intervals = _intervals(rows, base, color=LIGHT.ink)
    return Chart(title, rows, x, replace(y, zero=True), [columns, *intervals], height)


def dot_chart(rows: Sequence[Row], x: Axis, styles: Mapping[str, Look], title: str = "") -> Chart:
    """Points with intervals, one above the other.

    Parameters
    ----------
    rows : sequence of mappings
        Each with `SERIES`, ``x``, ``low`` and ``high`` (None where there is no interval), and ``y``, the words of its
        line; ``part`` marks what is drawn hollow.
    x : Axis
    styles : mapping of str to Look
    title : str
    """
    order = list(dict.fromkeys(row["y"] for row in rows))
    base = {"x": {"field": "x"}, "y": {"field": "y"}, "color": colours_of(styles)}
    layers = [*_intervals(rows, base, "x", strokeWidth=2), *_points(rows, {**base, "shape": _shapes(styles)}, 60)]
    return Chart(title, rows, replace(x, grid=True), Axis(places=order), layers, STEP * max(len(order), 2))


def bar_chart(rows: Sequence[Row], x: Axis, parts: Mapping[str, Look], title: str = "") -> Chart:
    """Bars made of parts, one above the other.

    Parameters
    ----------
    rows : sequence of mappings
        Each with `SERIES`, ``part``, one of the parts, ``x``, its length, and ``y``, the words of its bar.
    x : Axis
    parts : mapping of str to Look
        In the order in which they follow each other.
    title : str
    """
    order = list(dict.fromkeys(row["y"] for row in rows))
    places = {part: at for at, part in enumerate(parts)}
    shades = {"domain": list(parts), "range": [look.colour() for look in parts.values()]}
    legend = {"orient": "top", "title": None, "columns": 3}
    encoding = {
        "x": {"field": "x", "stack": "zero"},
        "y": {"field": "y"},
        "color": {"field": "part", "type": "nominal", "scale": shades, "legend": legend},
        "order": {"field": "at", "type": "quantitative"},
    }
    data = [{**row, "at": places[row["part"]]} for row in rows]
    upright = Axis(places=order)
    across = replace(x, grid=True, zero=True)
    return Chart(title, data, across, upright, [layer("bar", encoding)], STEP * max(len(order), 2))


def plain(rows: Iterable[Row]) -> list[Row]:
    """Rows without numpy's own numbers, which JSON does not know."""
    return [
        {name: value.item() if isinstance(value, np.generic) else value for name, value in row.items()} for row in rows
    ]


def hover_text(title: str, **figures: Any) -> dict[str, str]:
    """What a hover shows: a title, and figures by their names, underscores as spaces, those that are None left out."""
    shown = {name.replace("_", " "): str(value) for name, value in figures.items() if value is not None}
    return {"title": title, **shown}


def number(value: float) -> float | None:
    """A number for JSON, which has none for NaN."""
    return None if math.isnan(value) else float(value)


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


def layer(mark: str | dict[str, Any], encoding: Mapping[str, Any], test: str = "") -> Layer:
    """A mark for every row, or for those that pass a test, an expression of Vega's."""
    kind = {"type": mark} if isinstance(mark, str) else mark
    return {**({"transform": [{"filter": test}]} if test else {}), "mark": kind, "encoding": dict(encoding)}


def by_series(styles: Mapping[str, Look], values: Sequence[Any], field: str = SERIES) -> dict[str, Any]:
    """An encoding that differs by series; the key of a picture, or the chips of a page, explain it.

    Parameters
    ----------
    styles : mapping of str to Look
    values : sequence
        What stands for each series, in their order.
    field : str
        Where rows have the name of their series.
    """
    scale = {"domain": list(styles), "range": list(values)}
    return {"field": field, "type": "nominal", "scale": scale, "legend": None}


def colours_of(styles: Mapping[str, Look]) -> dict[str, Any]:
    """The encoding of colours by series."""
    return by_series(styles, [look.colour() for look in styles.values()])


def _intervals(rows: Sequence[Row], base: Mapping[str, Any], letter: str = "y", **mark: Any) -> list[Layer]:
    """Intervals along an axis, where rows have them."""
    if not any(row.get("low") is not None for row in rows):
        return []
    encoding = {**base, letter: {"field": "low"}, f"{letter}2": {"field": "high"}}
    return [layer({"type": "rule", **mark}, encoding, "isValid(datum.low)")]


def _points(rows: Sequence[Row], encoding: Mapping[str, Any], size: int) -> list[Layer]:
    """Markers, filled, and hollow for what is over a part of the data only."""
    filled = [layer({"type": "point", "filled": True, "size": size}, encoding, "!datum.part")]
    hollow = [layer({"type": "point", "filled": False, "size": size}, encoding, "datum.part")]
    return [*filled, *(hollow if any(row.get("part") for row in rows) else [])]


def _shapes(styles: Mapping[str, Look]) -> dict[str, Any]:
    return by_series(styles, [look.marker.vega for look in styles.values()])


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
