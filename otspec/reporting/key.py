"""The key of a picture: how each series is drawn, and what it is called."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from otspec.reporting.charts import by_series, layer
from otspec.reporting.style import LIGHT, Look

LETTER = 6.2
"""Pixels of a letter, in the mean."""
SYMBOL, LINE = 26, 20
"""Pixels of a symbol, and of a line of the key."""
SPACE = 10
"""Pixels below."""
LABEL = "label"
"""The field with the name of a series."""


def key(
    series: Mapping[str, Look], marks: set[str], width: float, left: float = 0.0, above: float = 0.0
) -> dict[str, Any]:
    """A chart in Vega-Lite that explains series, as many in a line as there is room for.

    Parameters
    ----------
    series : mapping of str to Look
    marks : set of str
        Marks of Vega-Lite that show the series: with ``line`` a symbol is a line, with ``point`` it has a marker, and
        it is a square where neither is among them.
    width : float
        Pixels that it may take.
    left : float
        Where it begins, in pixels.
    above : float
        Pixels that it keeps free above.
    """
    wide = SYMBOL + 14 + LETTER * max(map(len, series))
    columns = max(1, min(len(series), math.floor(width / wide)))
    rows = [
        _row(label, look, left + wide * (at % columns), above + LINE * (at // columns + 0.5))
        for at, (label, look) in enumerate(series.items())
    ]
    colours = by_series(series, [look.colour() for look in series.values()], LABEL)
    layers = [layer({"type": "text", "align": "left", "color": LIGHT.ink}, _at("words") | {"text": {"field": LABEL}})]
    if "line" in marks:
        dashes = by_series(series, [look.strokes for look in series.values()], LABEL)
        ends = _at("left") | {"x2": {"field": "right"}, "color": colours, "strokeDash": dashes}
        layers.append(layer({"type": "rule", "strokeWidth": 1.6}, ends, "!datum.hollow"))
    if "point" in marks:
        shapes = by_series(series, [look.marker.vega for look in series.values()], LABEL)
        for test in ("datum.hollow", "!datum.hollow"):
            mark = {"type": "point", "size": 45, "filled": test.startswith("!")}
            layers.append(layer(mark, _at("middle") | {"color": colours, "shape": shapes}, test))
    if not marks & {"line", "point"}:
        fills = by_series(series, [look.fill() for look in series.values()], LABEL)
        layers.append(layer({"type": "square", "size": 110, "opacity": 1}, _at("middle") | {"color": fills}))
    height = above + LINE * math.ceil(len(series) / columns) + SPACE
    return {"data": {"values": rows}, "width": max(1, width + left), "height": height, "layer": layers}


def _row(label: str, look: Look, x: float, y: float) -> dict[str, Any]:
    ends = {"left": x, "right": x + 18, "middle": x + 9, "words": x + SYMBOL}
    return {LABEL: label, "hollow": look.hollow, "y": y, **ends}


def _at(field: str) -> dict[str, Any]:
    """Places in pixels."""
    plain = {"type": "quantitative", "scale": None, "axis": None}
    return {"x": {"field": field, **plain}, "y": {"field": "y", **plain}}
