"""A report as one page: tables that sort, charts that answer a pointer; no file beside it, and no network.

The tables are those of report.md, word by word.  A policy in the page's head forbids the browser to load anything.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import altair as alt

from otspec.caches import user_cache
from otspec.extras import require
from otspec.reporting import charts
from otspec.reporting.charts import HOVER, SCHEMA, Group
from otspec.reporting.means import SERIES
from otspec.reporting.style import DARK, HUES, LIGHT, Style
from otspec.reporting.tables import TextTable
from otspec.writing import write_whole

HIDDEN, HOVERED = "hidden", "hovered"
"""Signals of the page to its charts: the series switched off, and the one that is pointed at."""
NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?")


@dataclass(frozen=True)
class Section:
    """A part of a page: charts of one set of series, and the tables beside them."""

    title: str
    series: Mapping[str, Style]
    """What can be switched on and off, by its label in the charts."""
    groups: Sequence[Group]
    tables: Sequence[TextTable]
    """The first stands before the charts."""


def write_page(path: Path, title: str, paragraphs: Sequence[str], sections: Sequence[Section]) -> None:
    """Write a page, whole or not at all.

    Parameters
    ----------
    path : Path
    title : str
    paragraphs : sequence of str
        How the figures came about, as in report.md: words in backquotes are code, lines that begin with a dash items.
    sections : sequence of Section

    Raises
    ------
    MissingExtra
        If vl-convert or Jinja is not installed.
    """
    jinja = require("jinja2")
    environment = jinja.Environment(
        loader=jinja.PackageLoader("otspec.reporting", "page"),
        autoescape=True,
        undefined=jinja.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    drawn = [chart for section in sections for group in section.groups for chart in group.charts]
    text = environment.get_template("page.html").render(
        title=title,
        paragraphs=[_blocks(paragraph) for paragraph in paragraphs],
        sections=sections,
        themes={"light": LIGHT._asdict(), "dark": DARK._asdict()},
        hues=HUES,
        data={
            "charts": [answering(chart) for chart in drawn],
            "themes": {"light": charts.config(LIGHT), "dark": charts.config(DARK)},
            "dark": charts.recoloured(),
        },
        library=_library() if drawn else "",
        key=sort_key,
        marked=_marked,
        title_of=charts.title_of,
    )
    write_whole(path, text)


def answering(chart: alt.LayerChart) -> dict[str, Any]:
    """A chart in Vega-Lite that is as wide as its place, and heeds the chips above it and a pointer."""
    spec = charts.spec_of(chart)
    spec.pop("title", None)
    return {
        **spec,
        "$schema": SCHEMA,
        "width": "container",
        "autosize": {"type": "fit-x", "contains": "padding"},
        "params": [{"name": HIDDEN, "value": []}, {"name": HOVERED, "value": ""}],
        "transform": [{"filter": f"indexof({HIDDEN}, datum.{SERIES}) < 0"}],
        "layer": [layer if "data" in layer else _heeding(layer) for layer in spec["layer"]],
    }


def _heeding(layer: dict[str, Any]) -> dict[str, Any]:
    """A layer whose marks stand back while another series is pointed at, and show their figures."""
    pointed_at = {"test": f"{HOVERED} == '' || {HOVERED} == datum.{SERIES}", "value": 1}
    answer = {"opacity": {"condition": pointed_at, "value": 0.15}, "tooltip": {"field": HOVER, "type": "nominal"}}
    return {**layer, "encoding": layer["encoding"] | answer}


def sort_key(cell: str) -> str:
    """What a figure is sorted by: the first number in it; nothing where there is none, which comes last."""
    found = NUMBER.search(cell)
    return found[0].replace(",", "") if found else ""


def _library() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script that can stand inside a page; made once for each vl-convert."""
    drawing = require("vl_convert")
    stored = user_cache() / f"vega-embed-{drawing.__version__}.js"
    try:
        return stored.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        script = drawing.javascript_bundle("window.vegaEmbed = vegaEmbed;")  # seconds
    script = re.sub(r"<(?=/script|!--|script)", r"\\x3c", script, flags=re.IGNORECASE)  # in strings; code has no such
    with suppress(OSError):  # it is made again, then
        stored.parent.mkdir(parents=True, exist_ok=True)
        write_whole(stored, script)
    return script


def _blocks(paragraph: str) -> list[tuple[str, list[list[tuple[bool, str]]]]]:
    """Runs of lines as ("p" or "ul", lines); a line is pieces of text, each with whether it is code."""
    found: list[tuple[str, list[list[tuple[bool, str]]]]] = []
    for line in filter(None, paragraph.splitlines()):
        kind = "ul" if line.startswith("- ") else "p"
        if not found or found[-1][0] != kind:
            found.append((kind, []))
        pieces = line.removeprefix("- ").split("`")
        found[-1][1].append([(at % 2 == 1, piece) for at, piece in enumerate(pieces) if piece])
    return found


def _marked(cell: str, series: Mapping[str, Style]) -> Style | None:
    """The style of the series that a cell names, with its K and L, or with other notes in brackets."""
    name = re.sub(r", [KL] = \d+", "", cell)
    return series.get(name) or next((style for label, style in series.items() if _bare(label) == _bare(name)), None)


def _bare(label: str) -> str:
    return label.partition(" (")[0]
