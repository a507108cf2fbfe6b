"""The benchmark of recorded trees, declared: what it records, compares and tells."""

from __future__ import annotations

import polars as pl

from otspec.bench.kinds import Kind
from otspec.bench.paths.cells import ACCEPTED, TIME, PathsCell, paths_cell_of
from otspec.bench.paths.charts import PICTURE, chart_groups, series_of
from otspec.bench.paths.overview import PICTURE as OF_ALL
from otspec.bench.paths.overview import overview_of, recordings_table, section
from otspec.bench.paths.summary import REFERENCE, frame, summarise
from otspec.bench.paths.tables import accepted_table, failed_table, reach_table
from otspec.bench.report import Report, Run, in_words
from otspec.reporting.page import Section


def report(run: Run) -> Report | None:
    """Tables and charts of every file of trees; None while there are no records."""
    reference = next((one.get("reference", REFERENCE) for one in run.runs[-1:]), REFERENCE)
    summaries = summarise(run.records, reference)
    if not summaries:
        return None
    overview = overview_of(summaries)
    accepted, reached, sections = [], [], []
    for data, by_rule in overview.items():
        mine = list(by_rule.values())
        title = f"{data}: K = {mine[0]['paths']}, L = {mine[0]['depth']}"
        lengths = accepted_table(mine, f"Accepted tokens: {title}", reference)
        reach = reach_table(mine, f"Reach: {title}")
        accepted.append(lengths)
        reached += [] if reach is None else [reach]
        here = [lengths] if reach is None else [lengths, reach]
        sections.append(Section(title, series_of(mine), chart_groups(mine), here))
    failed = [one for one in [failed_table(summaries)] if one is not None]
    several = [section(overview, reference)] if len(overview) > 1 else []
    tables = [table for one in several for table in one.tables]
    beside = [recordings_table(run), *failed]
    return Report(
        title="Rules on recorded trees",
        machine=in_words(run.identity["processor"]),
        notes=[],
        tables=[*tables, *accepted, *reached, *beside],
        screen=[*failed, *accepted, *tables],
        sections=[*several, *sections, Section("Beside these", {}, [], beside)],
    )


def _labels(cell: PathsCell) -> tuple[str, str]:
    return f"{cell.data}, K = {cell.paths}, L = {cell.depth}", cell.rule


KIND = Kind(
    name="paths",
    cell_of=paths_cell_of,
    cell=PathsCell,
    frame=frame,
    size=lambda cell: 0,
    finished=pl.col("wall_s").is_not_null() & (pl.col("message") == ""),
    paired="prompts",
    time=TIME,
    figure=ACCEPTED,
    labels=_labels,
    report=report,
    pictures=lambda identity: [OF_ALL, PICTURE],
)
