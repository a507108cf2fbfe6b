"""Charts for the page: Vega-Lite by Altair, in the one style of `otspec.reporting.style`.

Vega-Lite rather than Plotly or Bokeh: its bundle takes 0.9 MB of a page (Plotly 4.7), its charts are data with a
grammar that Altair checks as they are made, and vl-convert carries the bundle, so that no network is needed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from otspec.extras import require
from otspec.reporting.style import DARK, LIGHT, Look, Theme

Row = dict[str, Any]
"""A point of a chart: the value of every field, with `SERIES` and `TOLD` among them."""
SERIES = "series"
"""The field that says which line or bar a point belongs to."""
TOLD = "told"
"""The field with what a hover shows: a mapping of words."""
HIDDEN, HOVERED = "hidden", "hovered"
"""What the page tells its charts: the series switched off, and the one that is pointed at."""
FONT = "system-ui, sans-serif"
ACROSS, UPRIGHT = {"grid": True}, {"grid": False, "labelLimit": 180}
"""Axes of charts whose bars lie."""
HEIGHT, STEP = 260, 24
"""Pixels of a chart of lines, and of a line of words in the others."""


class Chart(NamedTuple):
    """A chart of a page."""

    title: str
    spec: dict[str, Any]
    """Vega-Lite."""


class Group(NamedTuple):
    """Charts that belong together, under a heading."""

    title: str
    note: str
    charts: list[Chart]
    wide: bool = False
    """Whether a chart takes the whole width."""


class Axes(NamedTuple):
    """What the two axes of a chart are called, and how the upright one runs."""

    x: str
    y: str
    log: bool = False
    ends: tuple[float, float] | None = None
    """Of the upright axis, where charts are to share them."""


def lines(title: str, rows: Sequence[Row], places: Sequence[str], styles: Mapping[str, Look], axes: Axes) -> Chart:
    """Lines over a few places, with intervals; the series stand beside each other at each place.

    Rows have `x` (one of the places), `y`, `low`, `high` (None where there is no interval), and may have `open`, for a
    lower bound, drawn with an open end, and `part`, for what is over a part of the data only, drawn hollow.
    """
    alt = require("altair")
    base = _base(alt, styles).encode(
        x=alt.X("x:O", sort=list(places), title=axes.x, scale=alt.Scale(type="band", paddingInner=0.25)),
        xOffset=alt.XOffset(f"{SERIES}:N", scale=alt.Scale(domain=list(styles))),
    )
    scale: dict[str, Any] = {"type": "log"} if axes.log else {"zero": False}
    upright = alt.Y(
        "y:Q",
        title=axes.y,
        scale=alt.Scale(**scale, **({} if axes.ends is None else {"domain": list(axes.ends), "nice": True})),
        axis=alt.Axis(gridOpacity=_decades(alt)) if axes.log else alt.Axis(),
    )
    layers = [
        base.transform_filter("isValid(datum.low)").mark_rule().encode(y=alt.Y("low:Q", title=axes.y), y2="high:Q"),
        base.transform_filter("!datum.part").mark_line().encode(y=upright, strokeDash=_dashes(alt, styles)),
    ]
    if any(row.get("open") for row in rows):
        ends = base.transform_filter("datum.open")
        layers += [
            ends.mark_rule(strokeDash=[2, 3]).encode(y=upright, y2=alt.value(0)),
            ends.mark_point(shape="triangle-up", size=55, filled=True).encode(y=alt.value(4)),
        ]
    for part in ("!datum.part", "datum.part"):
        if part == "!datum.part" or any(row.get("part") for row in rows):
            points = base.transform_filter(part).mark_point(filled=part == "!datum.part", size=55)
            layers.append(points.encode(y=upright, shape=_shapes(alt, styles)))
    return _chart(alt, title, rows, layers, HEIGHT)


def dots(title: str, rows: Sequence[Row], styles: Mapping[str, Look], x: str, reference: float) -> Chart:
    """Points with intervals, one above the other, and a line at what says no difference.

    Rows have `x`, `low`, `high` (None where there is no interval) and `y`, the words of their own line, in order.
    """
    alt = require("altair")
    order = [row["y"] for row in rows]
    base = _base(alt, styles).encode(y=alt.Y("y:N", sort=order, title=None, axis=UPRIGHT))
    across = alt.X("x:Q", title=x, scale=alt.Scale(zero=False), axis=ACROSS)
    layers = [
        alt.Chart(alt.Data(values=[{}])).mark_rule(strokeDash=[5, 3], color=LIGHT.grey).encode(x=alt.datum(reference)),
        base.transform_filter("isValid(datum.low)")
        .mark_rule(strokeWidth=2)
        .encode(x=alt.X("low:Q", title=x), x2="high:Q"),
        base.mark_point(filled=True, size=60).encode(x=across, shape=_shapes(alt, styles)),
    ]
    return _chart(alt, title, rows, layers, STEP * len(order))


def bars(title: str, rows: Sequence[Row], parts: Mapping[str, Look], x: str) -> Chart:
    """Bars made of parts, one above the other; rows have `part`, `x` and `y`, the words of their bar, in order."""
    alt = require("altair")
    order = list(dict.fromkeys(row["y"] for row in rows))
    places = {part: at for at, part in enumerate(parts)}
    shown = (
        alt.Chart()
        .mark_bar()
        .encode(
            x=alt.X("x:Q", title=x, stack="zero", axis=ACROSS),
            y=alt.Y("y:N", sort=order, title=None, axis=UPRIGHT),
            color=alt.Color(
                "part:N",
                scale=alt.Scale(domain=list(parts), range=[look.colour() for look in parts.values()]),
                legend=alt.Legend(orient="top", title=None, columns=3),
            ),
            order=alt.Order("at:Q"),
            opacity=_opacity(alt),
            tooltip=alt.Tooltip(f"{TOLD}:N"),
        )
    )
    data = [{**row, "at": places[row["part"]]} for row in rows]
    return _chart(alt, title, data, [shown], STEP * len(order))


def told(title: str, **figures: Any) -> dict[str, str]:
    """What a hover shows: a title, and figures by their names, underscores as spaces, those that are None left out."""
    shown = {name.replace("_", " "): str(value) for name, value in figures.items() if value is not None}
    return {"title": title, **shown}


def number(value: float) -> float | None:
    """A number for JSON, which has none for NaN."""
    return None if math.isnan(value) else float(value)


def ends_of(rows: Sequence[Row]) -> tuple[float, float] | None:
    """The least and the most that charts of these rows show; None where that is one value, or there are no rows."""
    values = [row[name] for row in rows for name in ("y", "low", "high") if row[name] is not None]
    return (min(values), max(values)) if values and min(values) < max(values) else None


def _decades(alt: Any) -> Any:
    """Grid lines of a logarithmic axis: powers of ten before the others."""
    return alt.condition(
        "abs(log(datum.value) / LN10 - round(log(datum.value) / LN10)) < 1e-6", alt.value(1), alt.value(0.3)
    )


def _base(alt: Any, styles: Mapping[str, Look]) -> Any:
    colours = [look.colour() for look in styles.values()]
    return alt.Chart().encode(
        color=alt.Color(f"{SERIES}:N", scale=alt.Scale(domain=list(styles), range=colours), legend=None),
        opacity=_opacity(alt),
        tooltip=alt.Tooltip(f"{TOLD}:N"),
    )


def _opacity(alt: Any) -> Any:
    return alt.condition(f"{HOVERED} == '' || {HOVERED} == datum.{SERIES}", alt.value(1), alt.value(0.15))


def _dashes(alt: Any, styles: Mapping[str, Look]) -> Any:
    dashes = [[2 * length for length in look.dash] or [1, 0] for look in styles.values()]
    return alt.StrokeDash(f"{SERIES}:N", scale=alt.Scale(domain=list(styles), range=dashes), legend=None)


def _shapes(alt: Any, styles: Mapping[str, Look]) -> Any:
    shapes = [look.marker.vega for look in styles.values()]
    return alt.Shape(f"{SERIES}:N", scale=alt.Scale(domain=list(styles), range=shapes), legend=None)


def _chart(alt: Any, title: str, rows: Sequence[Row], layers: Sequence[Any], height: int) -> Chart:
    chart = (
        alt.layer(*layers, data=alt.Data(values=list(rows)))
        .transform_filter(f"indexof({HIDDEN}, datum.{SERIES}) < 0")
        .add_params(alt.param(name=HIDDEN, value=[]), alt.param(name=HOVERED, value=""))
        .properties(width="container", height=height, autosize=alt.AutoSizeParams(type="fit-x", contains="padding"))
    )
    spec = chart.to_dict()
    del spec["config"]  # the page has its own, light and dark
    return Chart(title, spec)


def config(theme: Theme) -> dict[str, Any]:
    """The settings of Vega that go with the page's light or dark paper."""
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
        "axisX": {"labelAngle": 0, "grid": False, "tickCount": 5},
        "axisY": {"domain": False, "ticks": False, "tickCount": 6},
        "legend": letters,
        "line": {"strokeWidth": 1.6},
        "rule": {"strokeWidth": 1.4},
        "point": {"strokeWidth": 1.6},
    }


def recoloured() -> dict[str, str]:
    """What stands for the colours of the light theme on dark paper; the hues stay."""
    return dict(zip(LIGHT, DARK, strict=True))
