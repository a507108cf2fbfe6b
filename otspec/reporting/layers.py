"""What is drawn over a chart, or makes up a diagram: reference lines, words, curves, histograms.

Each function returns a chart of Altair's with rows of its own, to be added to another with ``+``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import altair as alt
import numpy as np
from numpy.typing import ArrayLike

from otspec.reporting.charts import data_of, layered
from otspec.reporting.means import Row
from otspec.reporting.style import GREY, INK, LIGHT, colour


def line_at(
    *,
    x: float | None = None,
    y: float | None = None,
    label: str = "",
    align: str = "",
    hue: str = GREY,
    dash: Sequence[float] = (5, 3),
) -> alt.LayerChart:
    """A line across the whole chart: upright at x, or level at y.

    Parameters
    ----------
    x, y : float, optional
        One of the two: where it stands.
    label : str
        Words beside it.
    align : {"left", "right"}, optional
        On which side an upright line has its words, and at which end a level one; by default the right one.
    hue : str
        As of a `Style`.
    dash : sequence of float
        Pixels drawn and left out; none for a whole line.
    """
    upright = y is None
    place = alt.Chart(data_of([{}])).encode(**({"x": alt.datum(x)} if upright else {"y": alt.datum(y)}))
    drawn = [place.mark_rule(color=colour(hue), strokeDash=list(dash))]
    if label:
        left = align == "left"
        # Upright: at the top, beside the line.  Level: at an end, above it.
        beside = {"y": alt.value(0)} if upright else {"x": alt.value(0 if left else "width")}
        put: dict[str, Any] = {"dx": -5 if left else 5, "baseline": "top"} if upright else {"dy": -6}
        put |= {"align": "right" if left == upright else "left", "color": LIGHT.ink, "fontSize": 11}
        drawn.append(place.mark_text(text=label, **put).encode(**beside))
    return layered(drawn)


def band(low: float, high: float) -> alt.Chart:
    """A level band across the whole chart, as of an interval."""
    marked = alt.Chart(data_of([{}])).mark_rect(color=LIGHT.faint, opacity=0.6)
    return marked.encode(y=alt.datum(low), y2=alt.datum(high))


def behind(marks: Sequence[Any], chart: alt.LayerChart) -> alt.LayerChart:
    """A chart with marks that are drawn before its own."""
    found = chart.copy()
    found.layer = [*marks, *found.layer]
    return found


def curve(
    x: Iterable[float], y: Iterable[float], hue: str = INK, *, dash: Sequence[float] = (), width: float = 1.6
) -> alt.Chart:
    """A line through points, as many of x as of y."""
    rows = [{"at": at, "x": float(one), "y": float(other)} for at, (one, other) in enumerate(zip(x, y, strict=True))]
    line = _own(rows).mark_line(color=colour(hue), strokeDash=list(dash), strokeWidth=width)
    return line.encode(order=alt.Order("at", type="quantitative"))


def points(x: Iterable[float], y: Iterable[float], hue: str = "blue", *, size: float = 9) -> alt.Chart:
    """Small dots, as many of x as of y; `size` is their area in square pixels."""
    rows = [{"x": float(one), "y": float(other)} for one, other in zip(x, y, strict=True)]
    return _own(rows).mark_circle(color=colour(hue), size=size, opacity=1)


def words(rows: Sequence[Row], *, hue: str = INK, size: int = 11, align: str = "center", right: int = 0) -> alt.Chart:
    """Words at points.

    Parameters
    ----------
    rows : sequence of mappings
        Each with ``x``, ``y`` and ``text``.
    hue : str
        As of a `Style`.
    size : int
        Of the letters, in pixels.
    align : {"left", "center", "right"}
        Which end of the words is at the point.
    right : int
        Pixels by which the words stand right of their points.
    """
    mark: dict[str, Any] = {"color": colour(hue), "fontSize": size, "dx": right, "align": align}
    return _own(rows).mark_text(**mark).encode(text=alt.Text("text", type="nominal"))


def histogram(values: ArrayLike, edges: ArrayLike, hue: str = "blue") -> alt.Chart:
    """Columns from 0 to the values, shape (n,), between edges, shape (n + 1,), as `numpy.histogram` returns them."""
    places = np.asarray(edges, dtype=float)
    columns = zip(places[:-1], places[1:], np.asarray(values, dtype=float), strict=True)
    rows = [{"x": left, "x2": right, "y": value, "y2": 0.0} for left, right, value in columns]
    return _own(rows).mark_rect(color=colour(hue), stroke=LIGHT.paper, strokeWidth=0.5).encode(x2="x2", y2="y2")


def shaded(rows: Sequence[Row], title: str, ends: tuple[float, float], ramp: Sequence[str]) -> alt.Chart:
    """Rectangles whose colours show a number.

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
    scale = alt.Scale(domain=list(ends), range=list(ramp), clamp=True)
    legend = alt.Legend(title=title, gradientLength=180, orient="top", direction="horizontal")
    shades = alt.Color("shade", type="quantitative", scale=scale, legend=legend)
    return _own(rows).mark_rect().encode(shades, x2="x2", y2="y2")


def _own(rows: Sequence[Row]) -> alt.Chart:
    """Rows with their places: numbers, or words."""
    kinds: dict[str, Any] = {
        letter: "nominal" if any(isinstance(row[letter], str) for row in rows) else "quantitative" for letter in "xy"
    }
    places = alt.X("x", type=kinds["x"]), alt.Y("y", type=kinds["y"])
    return alt.Chart(data_of(rows)).encode(*places)
