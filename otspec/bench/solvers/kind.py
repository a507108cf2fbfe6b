"""The benchmark of solvers, declared: what it records, compares and tells."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import polars as pl

from otspec.bench.frame import frame_of
from otspec.bench.intervals import Ratio
from otspec.bench.report import Kind, Report, Run, in_words
from otspec.bench.schema import SCHEMAS
from otspec.bench.solvers.cells import Cell, Sampling, cell_of
from otspec.bench.solvers.charts import chart_groups, series_of
from otspec.bench.solvers.summary import summarise
from otspec.bench.solvers.tables import (
    failures_table,
    over_data_table,
    overview_table,
    published_table,
    results_table,
)
from otspec.reporting.page import Section
from otspec.reporting.tables import TextTable


def report(run: Run) -> Report | None:
    """Tables and charts of every source of positions; None while there are no records."""
    if not run.records:
        return None
    everything, identity = summarise(run.records, run.runs), run.identity
    sampling = Sampling(identity["scheme"], identity["temperature"], identity["top_p"])
    settings = [sampling.scheme, f"temperature {sampling.temperature:g}"]
    settings += [] if sampling.top_p is None else [f"top-p {sampling.top_p:g}"]
    as_published = sampling == Sampling()
    tables: list[TextTable | None] = []
    screen: list[TextTable | None] = []
    sections = []
    for data, suffix in _suffixes(identity).items():
        rows = [one for one in everything if one["data"] == data]
        if not rows:
            continue
        title = data if as_published else f"{data}, {', '.join(settings)}"
        profile = data if as_published else ""
        overview = overview_table(rows, title)
        published = published_table(rows, profile)
        details = (results_table(rows, title), failures_table(rows), published)
        tables += [overview, *details]
        screen += [*details, overview]  # the end of a long output is what a screen shows
        groups = chart_groups(rows, profile, suffix)
        shown = [one for one in (overview, *details) if one is not None]
        sections.append(Section(title, series_of(rows, profile), groups, shown))
    if (averaged := over_data_table(everything, identity["data"])) is not None:
        tables.append(averaged)
        screen.append(averaged)
        sections.append(Section(averaged.title, {}, [], [averaged]))
    budgets = in_words(sorted({record["budget_s"] for record in run.records}))
    return Report(
        title="Multi-draft optimal transport: solvers at various (k, n)",
        machine=f"{in_words(identity['processor'])}, {in_words(identity['jobs'])} worker(s)",
        notes=[f"Drafts: {', '.join(settings)}. Seed {identity['seed']}; {budgets} s per cell."],
        tables=[one for one in tables if one is not None],
        screen=[one for one in screen if one is not None],
        sections=sections,
    )


def pictures(identity: Mapping[str, Any]) -> list[str]:
    """For each source of positions the settings side by side, then the lines over k and n."""
    return [f"{kind}{suffix}.png" for suffix in _suffixes(identity).values() for kind in ("report", "lines")]


def _suffixes(identity: Mapping[str, Any]) -> dict[str, str]:
    """What the names of pictures end in, by data: nothing where there is one source."""
    sources = identity["data"]
    if len(sources) == 1:
        return dict.fromkeys(sources, "")
    return {data: f"_{at}_{re.sub(r'[^a-zA-Z0-9.-]+', '_', data)}" for at, data in enumerate(sources, 1)}


def _labels(cell: Cell) -> tuple[str, str]:
    return f"{cell.data} {cell.setting}".strip(), cell.solver


KIND = Kind(
    name="solvers",
    cell_of=cell_of,
    cell=Cell,
    frame=lambda records: frame_of(records, SCHEMAS["solvers"]).with_columns(prompt="position", place=pl.lit(0)),
    size=lambda cell: cell.size,
    finished=pl.col("solved"),
    paired="positions",
    time=Ratio("ms", 1e3 * pl.col("wall_s")),
    figure=Ratio("acceptance", pl.col("acceptance")),
    labels=_labels,
    report=report,
    pictures=pictures,
)
