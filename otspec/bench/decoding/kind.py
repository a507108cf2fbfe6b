"""The decoding benchmark, declared: what it records, compares and tells."""

from __future__ import annotations

import polars as pl

from otspec.bench.decoding.cells import DecodingCell, decoding_cell_of
from otspec.bench.decoding.charts import DRAFTERS, PICTURE, chart_groups, series_of
from otspec.bench.decoding.summary import (
    EFFICIENCY,
    REFERENCE,
    TIME,
    beside_shape,
    by_task,
    frame,
    setting_of,
    shape,
    summarise,
)
from otspec.bench.decoding.tables import (
    choice_table,
    decoding_table,
    drafters_table,
    efficiency_table,
    failed_table,
    served_table,
    speed_up_table,
    task_tables,
)
from otspec.bench.report import Kind, Report, Run, in_words
from otspec.reporting.page import Section
from otspec.reporting.tables import TextTable


def report(run: Run) -> Report | None:
    """Tables and charts of every temperature; None while there are no records but trials."""
    identity = run.identity
    reference = next((one.get("reference", REFERENCE) for one in run.runs[-1:]), REFERENCE)
    summaries = summarise(run.records, reference)
    if not summaries:
        return None
    cut = [f"{name} {identity[name]}" for name in ("top_k", "top_p") if identity.get(name) is not None]
    tasks = by_task(run.records)
    tables: list[TextTable] = []
    screen: list[TextTable] = []
    sections = []
    settings = dict.fromkeys(setting_of(one.cell) for one in summaries)
    for setting in settings:
        mine = [one for one in summaries if setting_of(one.cell) == setting]
        temperature, batch = setting
        several = any(at != 1 for _, at in settings)
        title = ", ".join([f"temperature {temperature:g}", *([f"batch {batch}"] if several else []), *cut])
        fast = speed_up_table(mine, f"Speed-up: {title}")
        efficient = efficiency_table(mine, f"Block efficiency: {title}")
        served = served_table(mine, title)
        drafters = drafters_table(mine, run.records, f"Drafters: {title}")
        of_tasks = {task: [one for one in all_ if setting_of(one.cell) == setting] for task, all_ in tasks.items()}
        each = task_tables(of_tasks, mine, title)
        whole = decoding_table(mine, f"Decoding: {title}", reference)
        here = [one for one in (fast, efficient, served, drafters, whole, *each) if one is not None]
        tables += here
        screen += [one for one in (efficient, fast, drafters, *each) if one is not None]
        sections.append(Section(title[0].upper() + title[1:], series_of(mine), chart_groups(mine), here))
    choice, failed = choice_table(run.records), failed_table(summaries)
    others = [one for one in (choice, failed) if one is not None]
    where = [in_words(identity[name]) for name in ("processor", "device", "threads")]
    return Report(
        title="Multi-draft decoding: rules and methods to compare with",
        machine=f"{', '.join(where)} thread(s)",
        notes=[],
        tables=[*tables, *others],
        screen=[*([] if failed is None else [failed]), *screen],
        sections=[*sections, *([Section("Beside these", {}, [], others)] if others else [])],
    )


def _labels(cell: DecodingCell) -> tuple[str, str]:
    together = [f"batch {cell.batch}"] if cell.batch > 1 else []
    setting = ", ".join([f"T = {cell.temperature:g}", *together, *shape(cell)])
    return setting, ", ".join([cell.name, *beside_shape(cell)])


KIND = Kind(
    name="decoding",
    cell_of=decoding_cell_of,
    cell=DecodingCell,
    frame=frame,
    finished=(pl.col("tokens") > 0) & ~pl.col("trial"),
    time=TIME,
    figure=EFFICIENCY,
    labels=_labels,
    report=report,
    pictures=lambda identity: [PICTURE, DRAFTERS],
)
