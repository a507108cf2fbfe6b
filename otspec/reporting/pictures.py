"""Pictures: charts on a sheet, with a key to their series, drawn by vl-convert.

A sheet is narrow, so that a phone shows its letters: charts stand below each other rather than side by side.
"""

from __future__ import annotations

import math
import struct
import textwrap
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import altair as alt

from otspec.extras import require
from otspec.reporting.charts import SCHEMA, Group, by_series, colours_of, config, data_of, layered, shapes_of, spec_of
from otspec.reporting.style import LIGHT, Style
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
"""Pixels of a letter, on average."""
SYMBOL, LINE = 26, 20
"""Pixels of a symbol of the key, and of a line there."""
LABEL = "label"
"""The field with the name of a series, in the key."""
APART = {"scale": dict.fromkeys(("color", "shape", "strokeDash", "xOffset"), "independent")}
"""Scales of which each chart has its own."""
Spec = dict[str, Any]
"""Vega-Lite."""


class Part(NamedTuple):
    """Groups of charts of one set of series."""

    title: str
    series: Mapping[str, Style]
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
    series: Mapping[str, Style] | None = None,
    *,
    columns: int = 2,
    title: str = "",
    note: str = "",
) -> Picture:
    """Charts side by side and below each other.

    Parameters
    ----------
    charts : sequence of altair.LayerChart
    series : mapping of str to Style, optional
        What a key explains: the series of the charts, by their names.
    columns : int
        How many charts stand side by side, at most.
    title, note : str
        What stands above them.

    Examples
    --------
    >>> from otspec.reporting.charts import Axis, line_chart
    >>> from otspec.reporting.means import SERIES
    >>> from otspec.reporting.style import styles_of
    >>> rows = [{SERIES: "interval", "x": n, "y": y} for n, y in ((1, 0.71), (2, 0.78), (4, 0.83))]
    >>> chart = line_chart(rows, Axis("drafts n"), Axis("acceptance"), styles_of(["interval"]), "One position")
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


def _rows(part: Part, below: bool) -> list[Spec]:
    """The title with the key, and the groups with theirs; `below` another part."""
    groups = [group for group in part.groups if group.charts]
    rows = [_text([part.title], 15, 20 if below else 0, 8)] if part.title else []
    drawn = [[spec_of(chart) for chart in group.charts] for group in groups]
    if part.series:
        layers = [layer for specs in drawn for spec in specs for layer in spec["layer"]]
        marks = {layer["mark"]["type"] for layer in layers if "scale" in layer.get("encoding", {}).get("color", {})}
        rows.append(_key(part.series, marks, above=16 if below and not part.title else 0))
    for at, (group, specs) in enumerate(zip(groups, drawn, strict=True)):
        above = 16 if at else 4
        if group.title:
            rows.append(_text([group.title], 13, above, 0 if group.note else 6))
        if group.note:
            wrapped = textwrap.wrap(group.note, round(1.12 * WIDTH / LETTER))
            rows.append(_text(wrapped, 11, 0 if group.title else above, 6, LIGHT.grey, "normal"))
        columns = max(1, min(group.columns, len(specs)))
        width = round((WIDTH - GAP * (columns - 1)) / columns - NUMBERS)
        charts = [_placed(spec, width) for spec in specs]
        rows.append({"concat": charts, "columns": columns, "align": "each", "resolve": APART})
    return rows


def _placed(spec: Spec, width: int) -> Spec:
    """A chart of a width, with its title; all charts of a sheet have their left edges in line."""
    spec["width"] = width
    if title := spec.get("title"):
        settings = {"fontWeight": "normal", "fontSize": 12, "anchor": "start", "frame": "group", "color": LIGHT.ink}
        spec["title"] = {"text": title, **settings}
    channels = [(letter, one["encoding"][letter]) for one in spec["layer"] for letter in "xy" if _has(one, letter)]
    places = next((channel["sort"] for letter, channel in channels if letter == "y" and "sort" in channel), None)
    if places is not None:  # words, beside which the chart begins farther right
        longest = max((len(line) for place in places for line in place.split("\n")), default=0)
        room = max(min(LETTER * longest, WORDS) + 8 - NUMBERS, 0)
        for letter, channel in channels:
            if letter == "x":
                channel["scale"]["range"] = [room, width]
            else:
                channel["axis"]["offset"] = -room
    return spec


def _has(layer: Spec, letter: str) -> bool:
    """Whether a layer has that axis of the chart."""
    return "axis" in layer.get("encoding", {}).get(letter, {})


def _key(series: Mapping[str, Style], marks: set[str], above: float) -> Spec:
    """What explains series, as many in a line as there is room for.

    With ``line`` among the marks that show them a symbol is a line, with ``point`` it has a marker; without both it is
    a square.
    """
    wide = SYMBOL + 14 + LETTER * max(map(len, series))
    columns = max(1, min(len(series), math.floor(WIDTH / wide)))
    rows = []
    for at, (label, style) in enumerate(series.items()):
        left, y = wide * (at % columns) - NUMBERS, above + LINE * (at // columns + 0.5)
        ends = {"left": left, "right": left + 18, "middle": left + 9, "words": left + SYMBOL}
        rows.append({LABEL: label, "hollow": style.hollow, "y": y, **ends})
    base = alt.Chart().encode(_pixels(alt.Y, "y"))
    layers = [base.mark_text(align="left", color=LIGHT.ink).encode(_pixels(alt.X, "words"), text=f"{LABEL}:N")]
    coloured = base.encode(_pixels(alt.X, "middle"), colours_of(series, LABEL))
    if "line" in marks:
        dashes = by_series(alt.StrokeDash, series, [style.strokes for style in series.values()], LABEL)
        line = coloured.mark_rule(strokeWidth=1.6).encode(_pixels(alt.X, "left"), dashes, x2="right")
        layers.append(line.transform_filter("!datum.hollow"))
    if "point" in marks:
        for test in ("datum.hollow", "!datum.hollow"):
            marker = coloured.mark_point(size=45, filled=test.startswith("!")).encode(shapes_of(series, LABEL))
            layers.append(marker.transform_filter(test))
    if not marks & {"line", "point"}:
        fills = by_series(alt.Color, series, [style.fill() for style in series.values()], LABEL)
        layers.append(coloured.mark_square(size=110, opacity=1).encode(fills))
    height = above + LINE * math.ceil(len(series) / columns) + 10
    return spec_of(layered(layers, data=data_of(rows), width=WIDTH - NUMBERS, height=height))


def _text(
    lines: Sequence[str], size: int, above: int, below: int, colour: str = LIGHT.ink, weight: str = "bold"
) -> Spec:
    """Lines of text as a chart of their own, with so many pixels above and below."""
    height = round(1.35 * size)
    rows = [{"text": line, "y": above + height * at} for at, line in enumerate(lines)]
    mark: dict[str, Any] = {"align": "left", "baseline": "top", "fontSize": size, "fontWeight": weight, "color": colour}
    room: dict[str, Any] = {"width": WIDTH - NUMBERS, "height": above + height * len(lines) + below}
    text = alt.Chart(data_of(rows), **room).mark_text(**mark)
    return spec_of(text.encode(_pixels(alt.Y, "y"), x=alt.value(-NUMBERS), text="text:N"))


def _pixels(channel: Any, field: str) -> Any:
    """Places in pixels."""
    return channel(field, type="quantitative", scale=None, axis=None)


SIGNATURE = b"\x89PNG\r\n\x1a\n"
"""With which each such file begins."""


def smaller(png: bytes) -> bytes:
    """The same file with its pixels compressed as well as zlib can, which leaves about a third of the bytes.

    But for the last quarter of a percent, which takes as long as all before.
    """
    *others, end = [chunk for chunk in _chunks(png) if chunk[0] != b"IDAT"]
    pixels = zlib.decompress(b"".join(data for name, data in _chunks(png) if name == b"IDAT"))
    written = [*others, (b"IDAT", zlib.compress(pixels, 8)), end]
    return SIGNATURE + b"".join(_packed(name, data) for name, data in written)


def _chunks(png: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Names and contents of the parts of a file."""
    at = len(SIGNATURE)
    while at < len(png):
        (length,) = struct.unpack_from(">I", png, at)
        yield png[at + 4 : at + 8], png[at + 8 : at + 8 + length]
        at += length + 12  # with the length itself, the name and the check sum


def _packed(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
