"""What is drawn over a chart, or makes up a diagram: reference lines, words, curves, areas, cells.

Each function returns layers with rows of their own, to be added to a `otspec.reporting.charts.Chart` with ``+``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from otspec.reporting.charts import SERIES, Layer, Row, colours_of, plain
from otspec.reporting.style import GREY, INK, LIGHT, Look, colour


def line_at(
    *,
    x: float | str | None = None,
    y: float | str | None = None,
    label: str = "",
    align: str = "",
    hue: str = GREY,
    dash: Sequence[float] = (5, 3),
) -> list[Layer]:
    """A line across the whole chart: upright at x, or level at y.

    Parameters
    ----------
    x, y : float or str, optional
        One of the two: where it stands.
    label : str
        Words beside it.
    align : {"left", "right"}, optional
        On which side an upright line has its words, and at which end a level one; by default the right one.
    hue : str
        As of a `Look`.
    dash : sequence of float
        Pixels drawn and left out; none for a whole line.
    """
    place: dict[str, Any] = {"x": {"datum": x}} if y is None else {"y": {"datum": y}}
    drawn = [_own([{}], {"type": "rule", "color": colour(hue), "strokeDash": list(dash)}, place)]
    if label:
        left = align == "left"
        # Upright: at the top, beside the line.  Level: at an end, above it.
        beside = {"y": {"value": 0}} if y is None else {"x": {"value": 0 if left else "width"}}
        put = {"dx": -5 if left else 5, "baseline": "top"} if y is None else {"dy": -6}
        end = "right" if left == (y is None) else "left"
        mark = {"type": "text", "text": label, "color": LIGHT.ink, "fontSize": 11, "align": end, **put}
        drawn.append(_own([{}], mark, {**place, **beside}))
    return drawn


def band(low: float, high: float) -> list[Layer]:
    """A level band across the whole chart, as of an interval."""
    mark = {"type": "rect", "color": LIGHT.faint, "opacity": 0.6}
    return [_own([{}], mark, {"y": {"datum": low}, "y2": {"datum": high}})]


def curve(
    x: Iterable[float], y: Iterable[float], hue: str = INK, *, dash: Sequence[float] = (), width: float = 1.6
) -> list[Layer]:
    """A line through points, as many of x as of y."""
    mark = {"type": "line", "color": colour(hue), "strokeDash": list(dash), "strokeWidth": width}
    rows = [{"at": at, "x": float(one), "y": float(other)} for at, (one, other) in enumerate(zip(x, y, strict=True))]
    order = {"field": "at", "type": "quantitative"}
    return [_own(rows, mark, {"x": {"field": "x"}, "y": {"field": "y"}, "order": order})]


def points(x: Iterable[float], y: Iterable[float], hue: str = "blue", *, size: float = 9) -> list[Layer]:
    """Small dots, as many of x as of y; `size` is their area in square pixels."""
    rows = [{"x": float(one), "y": float(other)} for one, other in zip(x, y, strict=True)]
    mark = {"type": "circle", "color": colour(hue), "size": size, "opacity": 1}
    return [_own(rows, mark, {"x": {"field": "x"}, "y": {"field": "y"}})]


def words(
    rows: Sequence[Row], *, hue: str = INK, size: int = 11, align: str = "center", rise: int = 0, right: int = 0
) -> list[Layer]:
    """Words at points.

    Parameters
    ----------
    rows : sequence of mappings
        Each with ``x``, ``y`` and ``text``.
    hue : str
        As of a `Look`.
    size : int
        Of the letters, in pixels.
    align : {"left", "center", "right"}
        Which end of the words is at the point.
    rise, right : int
        Pixels by which the words stand above their points, and right of them.
    """
    mark = {"type": "text", "color": colour(hue), "fontSize": size, "dy": -rise, "dx": right, "align": align}
    return [_own(rows, mark, {"x": {"field": "x"}, "y": {"field": "y"}, "text": {"field": "text"}})]


def segments(rows: Sequence[Row], styles: Mapping[str, Look], *, width: float = 1.6) -> list[Layer]:
    """Level lines; rows have `SERIES`, ``x`` and ``x2``, their ends, and ``y``."""
    encoding = {"x": {"field": "x"}, "x2": {"field": "x2"}, "y": {"field": "y"}, "color": colours_of(styles)}
    return [_own(rows, {"type": "rule", "strokeWidth": width}, encoding)]


def areas(rows: Sequence[Row], styles: Mapping[str, Look], *, opacity: float = 0.85) -> list[Layer]:
    """Areas; rows have `SERIES`, ``x``, and ``low`` and ``high``, between which the area is at x."""
    encoding = {
        "x": {"field": "x"},
        "y": {"field": "low", "stack": None},
        "y2": {"field": "high"},
        "color": colours_of(styles),
    }
    return [_own(rows, {"type": "area", "opacity": opacity, "line": False}, encoding)]


def between(name: str, x: ArrayLike, low: ArrayLike, high: ArrayLike) -> list[Row]:
    """Rows for `areas`: a series between two curves, all of shape (n,)."""
    ends = zip(*(np.asarray(values, dtype=float).tolist() for values in (x, low, high)), strict=True)
    return [{SERIES: name, "x": at, "low": one, "high": other} for at, one, other in ends]


def cells(rows: Sequence[Row], styles: Mapping[str, Look], *, opacity: float = 1.0) -> list[Layer]:
    """Rectangles; rows have `SERIES`, ``x``, ``x2``, ``y`` and ``y2``, their ends."""
    ends = {letter: {"field": letter} for letter in ("x", "x2", "y", "y2")}
    mark = {"type": "rect", "opacity": opacity, "stroke": LIGHT.paper, "strokeWidth": 0.6}
    return [_own(rows, mark, {**ends, "color": colours_of(styles)})]


def histogram(values: ArrayLike, edges: ArrayLike, hue: str = "blue") -> list[Layer]:
    """Columns from 0 to the values, shape (n,), between edges, shape (n + 1,), as `numpy.histogram` returns them."""
    places = np.asarray(edges, dtype=float)
    columns = zip(places[:-1], places[1:], np.asarray(values, dtype=float), strict=True)
    rows = [{"x": left, "x2": right, "y": value, "y2": 0.0} for left, right, value in columns]
    mark = {"type": "rect", "color": colour(hue), "stroke": LIGHT.paper, "strokeWidth": 0.5}
    return [_own(rows, mark, {letter: {"field": letter} for letter in ("x", "x2", "y", "y2")})]


def shaded(rows: Sequence[Row], title: str, ends: tuple[float, float], ramp: Sequence[str]) -> list[Layer]:
    """Rectangles whose colours say a number.

    Parameters
    ----------
    rows : sequence of mappings
        Each with ``x``, ``x2``, ``y`` and ``y2``, the ends of a rectangle, and ``shade``, its number.
    title : str
        What the numbers are.
    ends : (float, float)
        Numbers at the ends of the ramp; what is beyond is drawn as these.
    ramp : sequence of str
        Colours, from the least to the largest.
    """
    encoding: dict[str, Any] = {letter: {"field": letter} for letter in ("x", "x2", "y", "y2")}
    scale = {"domain": list(ends), "range": list(ramp), "clamp": True}
    legend = {"title": title, "gradientLength": 180, "orient": "top", "direction": "horizontal"}
    encoding["color"] = {"field": "shade", "type": "quantitative", "scale": scale, "legend": legend}
    return [_own(rows, {"type": "rect"}, encoding)]


def _own(rows: Sequence[Row], mark: Mapping[str, Any], encoding: Mapping[str, Any]) -> Layer:
    return {"data": {"values": plain(rows)}, "mark": dict(mark), "encoding": dict(encoding)}
