"""Pictures: charts on a sheet, with a key to their series, drawn by vl-convert.

A sheet is narrow, so that a phone shows its letters: charts stand below each other rather than side by side.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from otspec.extras import require
from otspec.reporting.charts import SCHEMA, Axis, Chart, Group, config
from otspec.reporting.key import LETTER, key
from otspec.reporting.png import smaller
from otspec.reporting.style import LIGHT, Look
from otspec.writing import write_whole

WIDTH, GAP = 680, 26
"""Pixels of a sheet, and between charts side by side."""
SCALE = 2.0
"""Pixels of a .png for each of those."""
NUMBERS = 56
"""Pixels left of a chart, for an upright axis of numbers with its title.  Words take more, inside of the chart."""
WORDS = 290
"""Pixels after which words beside an axis are cut."""
APART = {"scale": dict.fromkeys(("color", "shape", "strokeDash", "xOffset"), "independent")}
"""Scales of which each chart has its own."""


class Part(NamedTuple):
    """Groups of charts of one set of series."""

    title: str
    series: Mapping[str, Look]
    """What the key explains: nothing where that is clear without."""
    groups: Sequence[Group]


@dataclass(frozen=True)
class Picture:
    """A picture that can be saved, and that shows itself in a notebook."""

    spec: dict[str, Any]
    """Vega-Lite."""

    def save(self, path: Path) -> None:
        """Write it to a .png or .svg file, whole or not at all.

        Raises
        ------
        MissingExtra
            If vl-convert is not installed.
        """
        write_whole(path, self.svg() if path.suffix == ".svg" else self.png())

    def png(self) -> bytes:
        """The picture as a PNG file holds it."""
        drawn: bytes = require("vl_convert").vegalite_to_png(self.spec, scale=SCALE)
        return smaller(drawn)

    def svg(self) -> str:
        """The picture as an SVG file holds it."""
        drawn: str = require("vl_convert").vegalite_to_svg(self.spec)
        return drawn

    def _repr_svg_(self) -> str:
        return self.svg()


def picture(
    charts: Sequence[Chart],
    series: Mapping[str, Look] | None = None,
    *,
    columns: int = 2,
    title: str = "",
    note: str = "",
) -> Picture:
    """Charts side by side and below each other.

    Parameters
    ----------
    charts : sequence of Chart
    series : mapping of str to Look, optional
        What a key explains: the series of the charts, by their names.
    columns : int
        How many charts stand side by side, at most.
    title, note : str
        What stands above them.

    Examples
    --------
    >>> from otspec.reporting.charts import SERIES, Axis, line_chart
    >>> from otspec.reporting.style import looks
    >>> rows = [{SERIES: "interval", "x": n, "y": y} for n, y in ((1, 0.71), (2, 0.78), (4, 0.83))]
    >>> chart = line_chart(rows, Axis("drafts n"), Axis("acceptance"), looks(["interval"]), "One position")
    >>> picture([chart]).spec["vconcat"][0]["concat"][0]["title"]["text"]
    'One position'
    """
    return sheet([Part("", series or {}, [Group(title, note, charts, columns)])])


def sheet(parts: Sequence[Part]) -> Picture:
    """Parts below each other, each with its title, its key and its groups of charts."""
    settings = config(LIGHT, WORDS) | {"font": "sans-serif", "background": LIGHT.paper, "concat": {"spacing": GAP}}
    settings["axisY"] |= {"minExtent": 30}
    rows = [row for at, part in enumerate(parts) for row in _rows(part, below=at > 0)]
    layout = {"padding": 12, "spacing": 0, "resolve": APART}
    return Picture({"$schema": SCHEMA, "config": settings, **layout, "vconcat": rows})


def _rows(part: Part, below: bool) -> list[dict[str, Any]]:
    """The title with the key, and the groups with theirs; `below` another part."""
    groups = [group for group in part.groups if group.charts]
    rows = [_text([part.title], 15, 20 if below else 0, 8)] if part.title else []
    if part.series:
        marks = {mark for group in groups for mark in _marks(group)}
        rows.append(key(part.series, marks, WIDTH, -NUMBERS, above=16 if below and not part.title else 0))
    for at, group in enumerate(groups):
        above = 16 if at else 4
        if group.title:
            rows.append(_text([group.title], 13, above, 0 if group.note else 6))
        if group.note:
            wrapped = textwrap.wrap(group.note, round(1.12 * WIDTH / LETTER))
            rows.append(_text(wrapped, 11, 0 if group.title else above, 6, LIGHT.grey, "normal"))
        rows.append(_charts(group))
    return rows


def _charts(group: Group) -> dict[str, Any]:
    columns = max(1, min(group.columns, len(group.charts)))
    width = (WIDTH - GAP * (columns - 1)) / columns - NUMBERS
    charts = [_unit(chart, round(width)) for chart in group.charts]
    return {"concat": charts, "columns": columns, "align": "each", "resolve": APART}


def _unit(chart: Chart, width: int) -> dict[str, Any]:
    """A chart of a width, with its title."""
    title = {"text": chart.title, "fontWeight": "normal", "fontSize": 12, "anchor": "start", "frame": "group"}
    spec = {**chart.spec, "width": width, **({"title": {**title, "color": LIGHT.ink}} if chart.title else {})}
    return _indented(spec, _room(chart.y) - NUMBERS, width)


def _indented(spec: dict[str, Any], room: float, width: int) -> dict[str, Any]:
    """A chart whose upright axis begins so much farther right: all charts of a sheet have their left edges in line."""
    if room <= 0:
        return spec
    for layer in spec["layer"]:
        for letter, more in (("x", {"scale": {"range": [room, width]}}), ("y", {"axis": {"offset": -room}})):
            channel = layer["encoding"].get(letter, {})
            for name, settings in more.items():
                if name in channel:
                    channel[name] = {**channel[name], **settings}
    return spec


def _room(axis: Axis) -> float:
    """Pixels left of an upright axis."""
    if axis.places is None:
        return NUMBERS
    longest = max((len(line) for place in axis.places for line in place.split("\n")), default=0)
    return min(LETTER * longest, WORDS) + 8


def _text(
    lines: Sequence[str], size: int, above: int, below: int, colour: str = LIGHT.ink, weight: str = "bold"
) -> dict[str, Any]:
    """Lines of text as a chart of their own, with so many pixels above and below."""
    height = round(1.35 * size)
    rows = [{"text": line, "y": above + height * at} for at, line in enumerate(lines)]
    mark = {"type": "text", "align": "left", "baseline": "top", "fontSize": size, "fontWeight": weight, "color": colour}
    upright = {"field": "y", "type": "quantitative", "scale": None, "axis": None}
    encoding = {"x": {"value": -NUMBERS}, "y": upright, "text": {"field": "text", "type": "nominal"}}
    return {
        "data": {"values": rows},
        "width": WIDTH - NUMBERS,
        "height": above + height * len(lines) + below,
        "mark": mark,
        "encoding": encoding,
    }


def _marks(group: Group) -> set[str]:
    """Marks by which charts show their series."""
    layers = [layer for chart in group.charts for layer in chart.layers]
    return {layer["mark"]["type"] for layer in layers if "scale" in layer["encoding"].get("color", {})}
