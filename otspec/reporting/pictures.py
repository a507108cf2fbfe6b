"""Pictures: charts on a sheet, with a key to their series, drawn by vl-convert.

A sheet is narrow, so that a phone shows its letters: charts stand below each other rather than side by side.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import altair as alt

from otspec.extras import require
from otspec.reporting.charts import SCHEMA, Group, by_series, colours_of, config, shapes_of, title_of
from otspec.reporting.png import smaller
from otspec.reporting.style import LIGHT, Look
from otspec.writing import write_whole

WIDTH, GAP = 680, 26
"""Pixels of a sheet, and between charts side by side."""
SCALE = 2.0
"""Pixels of a .png for each of those."""
NUMBERS = 56
"""Pixels left of a chart, for an upright axis of numbers with its title; of words it takes more."""
WORDS = 290
"""Pixels after which words beside an axis are cut."""
LETTER = 6.2
"""Pixels of a letter, in the mean."""
SYMBOL, LINE = 26, 20
"""Pixels of a symbol of the key, and of a line there."""
LABEL = "label"
"""The field with the name of a series, in the key."""


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
    charts: Sequence[alt.LayerChart],
    series: Mapping[str, Look] | None = None,
    *,
    columns: int = 2,
    title: str = "",
    note: str = "",
) -> Picture:
    """Charts side by side and below each other.

    Parameters
    ----------
    charts : sequence of altair.LayerChart
    series : mapping of str to Look, optional
        What a key explains: the series of the charts, by their names.
    columns : int
        How many charts stand side by side, at most.
    title, note : str
        What stands above them.

    Examples
    --------
    >>> from otspec.reporting.charts import Axis, line_chart
    >>> from otspec.reporting.means import SERIES
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
    whole = _apart(alt.vconcat(*rows, spacing=0)).properties(padding=12)
    return Picture({**whole.to_dict(validate=False), "$schema": SCHEMA, "config": settings})


def _apart(charts: Any) -> Any:
    """Each chart has scales of its own."""
    return charts.resolve_scale(**dict.fromkeys(("color", "shape", "strokeDash", "xOffset"), "independent"))


def _rows(part: Part, below: bool) -> list[Any]:
    """The title with the key, and the groups with theirs; `below` another part."""
    groups = [group for group in part.groups if group.charts]
    rows: list[Any] = [_text([part.title], 15, 20 if below else 0, 8)] if part.title else []
    if part.series:
        marks = {mark for group in groups for mark in _marks(group)}
        rows.append(_key(part.series, marks, above=16 if below and not part.title else 0))
    for at, group in enumerate(groups):
        above = 16 if at else 4
        if group.title:
            rows.append(_text([group.title], 13, above, 0 if group.note else 6))
        if group.note:
            wrapped = textwrap.wrap(group.note, round(1.12 * WIDTH / LETTER))
            rows.append(_text(wrapped, 11, 0 if group.title else above, 6, LIGHT.grey, "normal"))
        columns = max(1, min(group.columns, len(group.charts)))
        width = round((WIDTH - GAP * (columns - 1)) / columns - NUMBERS)
        rows.append(_apart(alt.concat(*(_placed(one, width) for one in group.charts), columns=columns, align="each")))
    return rows


def _placed(chart: alt.LayerChart, width: int) -> alt.LayerChart:
    """A chart of a width, with its title; all charts of a sheet have their left edges in line."""
    found = chart.copy().properties(width=width)
    if title := title_of(chart):
        settings = {"fontWeight": "normal", "fontSize": 12, "anchor": "start", "frame": "group", "color": LIGHT.ink}
        found = found.properties(title=alt.Title(title, **settings))
    if (room := _room(chart) - NUMBERS) > 0:  # of words, beside which the chart begins farther right
        for one in _units(found):
            across, upright = one.encoding.x, one.encoding.y
            if isinstance(across, alt.X):
                across["scale"]["range"] = [room, width]
            if isinstance(upright, alt.Y):
                upright["axis"]["offset"] = -room
    return found


def _room(chart: alt.LayerChart) -> float:
    """Pixels left of the upright axis of a chart."""
    axes = [one.encoding.y for one in _units(chart) if isinstance(one.encoding.y, alt.Y)]
    places = next((axis["sort"] for axis in axes if isinstance(axis["sort"], list)), None)
    if places is None:
        return NUMBERS
    longest = max((len(line) for place in places for line in place.split("\n")), default=0)
    return min(LETTER * longest, WORDS) + 8


def _units(chart: alt.LayerChart) -> list[alt.Chart]:
    """Layers that are marks, and not made of layers themselves."""
    return [one for one in chart.layer if isinstance(one, alt.Chart)]


def _marks(group: Group) -> set[str]:
    """Marks by which charts show their series."""
    layers = [one for chart in group.charts for one in _units(chart)]
    return {one.mark if isinstance(one.mark, str) else one.mark.type for one in layers if one.encoding.color}


def _key(series: Mapping[str, Look], marks: set[str], above: float) -> alt.LayerChart:
    """What explains series, as many in a line as there is room for.

    With ``line`` among the marks that show them a symbol is a line, with ``point`` it has a marker; without both it is
    a square.
    """
    wide = SYMBOL + 14 + LETTER * max(map(len, series))
    columns = max(1, min(len(series), math.floor(WIDTH / wide)))
    rows = []
    for at, (label, look) in enumerate(series.items()):
        left, y = wide * (at % columns) - NUMBERS, above + LINE * (at // columns + 0.5)
        ends = {"left": left, "right": left + 18, "middle": left + 9, "words": left + SYMBOL}
        rows.append({LABEL: label, "hollow": look.hollow, "y": y, **ends})
    base = alt.Chart().encode(_pixels(alt.Y, "y"))
    layers = [base.mark_text(align="left", color=LIGHT.ink).encode(_pixels(alt.X, "words"), text=f"{LABEL}:N")]
    coloured = base.encode(_pixels(alt.X, "middle"), colours_of(series, LABEL))
    if "line" in marks:
        dashes = by_series(alt.StrokeDash, series, [look.strokes for look in series.values()], LABEL)
        line = coloured.mark_rule(strokeWidth=1.6).encode(_pixels(alt.X, "left"), dashes, x2="right")
        layers.append(line.transform_filter("!datum.hollow"))
    if "point" in marks:
        for test in ("datum.hollow", "!datum.hollow"):
            marker = coloured.mark_point(size=45, filled=test.startswith("!")).encode(shapes_of(series, LABEL))
            layers.append(marker.transform_filter(test))
    if not marks & {"line", "point"}:
        fills = by_series(alt.Color, series, [look.fill() for look in series.values()], LABEL)
        layers.append(coloured.mark_square(size=110, opacity=1).encode(fills))
    height = above + LINE * math.ceil(len(series) / columns) + 10
    drawn = alt.layer(*layers, data=alt.Data(values=rows))
    return drawn.properties(width=WIDTH - NUMBERS, height=height)


def _text(
    lines: Sequence[str], size: int, above: int, below: int, colour: str = LIGHT.ink, weight: str = "bold"
) -> alt.Chart:
    """Lines of text as a chart of their own, with so many pixels above and below."""
    height = round(1.35 * size)
    rows = [{"text": line, "y": above + height * at} for at, line in enumerate(lines)]
    mark: dict[str, Any] = {"align": "left", "baseline": "top", "fontSize": size, "fontWeight": weight, "color": colour}
    text = alt.Chart(alt.Data(values=rows)).mark_text(**mark)
    text = text.encode(_pixels(alt.Y, "y"), x=alt.value(-NUMBERS), text="text:N")
    return text.properties(width=WIDTH - NUMBERS, height=above + height * len(lines) + below)


def _pixels(channel: Any, field: str) -> Any:
    """Places in pixels."""
    return channel(field, type="quantitative", scale=None, axis=None)
