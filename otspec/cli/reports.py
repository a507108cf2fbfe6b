"""Reports on folders of measurements, made from what the folders hold alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from otspec.cli.measuring import about, tell
from otspec.reporting.console import console

if TYPE_CHECKING:
    from otspec.bench.records import PathsFolder, RecordFolder, RunFolder
    from otspec.reporting.page import Section

PAGE = "report.html"


def report(folder: RecordFolder) -> None:
    """Tables and pictures of all that a folder holds, this run's cells and earlier ones."""
    from otspec.bench.records import PathsFolder, RunFolder

    if isinstance(folder, RunFolder):
        _report_solvers(folder)
    elif isinstance(folder, PathsFolder):
        _report_paths(folder)
    else:
        _report_decoding(folder)


def written(folder: RecordFolder) -> list[str]:
    """The files of a report that are there: tables, the page with them, pictures."""
    return [name for name in ("report.md", PAGE, *_pictures(folder)) if (folder.path / name).is_file()]


def _pictures(folder: RecordFolder) -> list[str]:
    """Those that there may be: by data the settings side by side, then the lines against k and n; or of decoding."""
    from otspec.bench.records import PathsFolder, RunFolder

    if isinstance(folder, PathsFolder):
        return ["report.png"]
    if not isinstance(folder, RunFolder):
        return ["report.png", "drafters.png"]
    return [f"{kind}{suffix}.png" for suffix in _suffixes(folder.identity).values() for kind in ("report", "lines")]


def _drawn(folder: RecordFolder) -> list[str]:
    return [name for name in _pictures(folder) if (folder.path / name).is_file()]


def _report_solvers(folder: RunFolder) -> None:
    from otspec.bench.cells import Sampling
    from otspec.bench.charts import chart_groups, series_of
    from otspec.bench.plot import plot, plot_lines
    from otspec.bench.report import failures_table, overview_table, published_table, results_table
    from otspec.bench.summary import optima, summaries_of
    from otspec.reporting.page import Section

    everything = summaries_of(folder)
    if not everything:
        return
    identity, known = folder.identity, optima(folder.records)
    sampling = Sampling(identity["scheme"], identity["temperature"], identity["top_p"])
    settings = [sampling.scheme, f"temperature {sampling.temperature:g}"]
    settings += [] if sampling.top_p is None else [f"top-p {sampling.top_p:g}"]
    as_published = sampling == Sampling()
    printed, shown, parts = [], [], []
    for data, suffix in _suffixes(identity).items():
        summaries = [summary for summary in everything if summary.cell.data == data]
        if not summaries:
            continue
        here = {key: best for key, best in known.items() if key[0] == data}
        title = data if as_published else f"{data}, {', '.join(settings)}"
        plot(summaries, here, data if as_published else title, folder.path / f"report{suffix}.png")
        plot_lines(summaries, title, folder.path / f"lines{suffix}.png")
        overview = overview_table(summaries, here, title)
        published = published_table(summaries, data) if as_published else None
        details = (results_table(summaries, title), failures_table(summaries), published)
        tables = [overview, *details]
        printed += tables
        parts.append((title, tables, summaries))
        shown += [*details, overview]  # the end of a long output is what a screen shows
    machine = f"{_told(identity['processor'])}, {_told(identity['jobs'])} worker(s)"
    title = "Multi-draft optimal transport: solvers at various (k, n)"
    paragraphs = about(folder, machine)
    budgets = _told(sorted({record["budget_s"] for record in folder.records}))
    paragraphs.append(f"Drafts: {', '.join(settings)}. Seed {identity['seed']}; {budgets} s per cell.")
    tell(folder, title, paragraphs, _drawn(folder), printed, shown)

    def sections() -> list[Section]:
        return [
            Section(name, series_of(mine), chart_groups(mine), [table for table in tables if table is not None])
            for name, tables, mine in parts
        ]

    _page(folder, title, paragraphs, sections)


def _report_decoding(folder: RecordFolder) -> None:
    from otspec.bench.decoding_charts import chart_groups, series_of
    from otspec.bench.decoding_plot import plot_decoding
    from otspec.bench.decoding_report import (
        choice_table,
        decoding_table,
        efficiency_table,
        failed_table,
        speed_up_table,
        task_tables,
    )
    from otspec.bench.decoding_summary import REFERENCE, by_task, summarise
    from otspec.bench.drafters import compared, drafters_table, plot_drafters
    from otspec.reporting.page import Section

    identity = folder.identity
    rule = next((run.get("reference", REFERENCE) for run in folder.runs[-1:]), REFERENCE)
    summaries = summarise(folder.records, rule)
    if not summaries:
        return
    cut = [f"{name} {identity[name]}" for name in ("top_k", "top_p") if identity[name] is not None]
    plot_decoding(summaries, ", ".join([*cut, f"{identity['max_new_tokens']} new tokens"]), folder.path / "report.png")
    printed, shown, parts = [], [], []
    tasks = by_task(folder.records)
    for temperature in dict.fromkeys(one.cell.temperature for one in summaries):
        mine = [one for one in summaries if one.cell.temperature == temperature]
        title = ", ".join([f"temperature {temperature:g}", *cut])
        fast = speed_up_table(mine, f"Speed-up: {title}")
        efficient = efficiency_table(mine, f"Block efficiency: {title}")
        drafters = drafters_table(mine, folder.records, f"Drafters: {title}")
        tables = [fast, efficient, drafters, decoding_table(mine, f"Decoding: {title}", rule)]
        shown += [efficient, fast, drafters]
        per_task = {
            task: [one for one in found if one.cell.temperature == temperature] for task, found in tasks.items()
        }
        by_tasks = task_tables(per_task, mine, title)
        tables += by_tasks
        shown += by_tasks
        printed += tables
        parts.append((title, tables, mine))
    others = [choice_table(folder.records), failed_table(summaries)]
    where = [_told(identity[name]) for name in ("processor", "device", "threads")]
    title = "Multi-draft decoding: rules and methods to compare with"
    paragraphs = about(folder, f"{', '.join(where)} thread(s)")
    if compared(summaries):
        plot_drafters(summaries, folder.path / "drafters.png")
    tell(folder, title, paragraphs, _drawn(folder), [*printed, *others], [others[1], *shown])

    def sections() -> list[Section]:
        found = [
            Section(
                name[0].upper() + name[1:],
                series_of(mine),
                chart_groups(mine),
                [one for one in tables if one is not None],
            )
            for name, tables, mine in parts
        ]
        rest = [table for table in others if table is not None]
        return [*found, Section("Beside these", {}, [], rest)] if rest else found

    _page(folder, title, paragraphs, sections)


def _page(folder: RecordFolder, title: str, paragraphs: Sequence[str], sections: Callable[[], list[Section]]) -> None:
    """Write the page, or say what it takes; one of earlier records does not stay beside a newer report."""
    from otspec.reporting.page import lacking, write_page

    path = folder.path / PAGE
    if reason := lacking():
        path.unlink(missing_ok=True)
        console.print(f"No {PAGE}: {reason}", soft_wrap=True)
        return
    write_page(path, title, paragraphs, sections())


def _report_paths(folder: PathsFolder) -> None:
    from otspec.bench.paths_plot import plot_paths
    from otspec.bench.paths_report import accepted_table, failed_table, reach_table
    from otspec.bench.paths_summary import REFERENCE, summarise
    from otspec.reporting.page import Section

    reference = next((run.get("reference", REFERENCE) for run in folder.runs[-1:]), REFERENCE)
    summaries = summarise(folder.records, reference)
    if not summaries:
        return
    by_title = {
        f"{data}: K = {mine[0].cell.paths}, L = {mine[0].cell.depth}": mine
        for data in dict.fromkeys(one.cell.data for one in summaries)
        for mine in [[one for one in summaries if one.cell.data == data]]
    }
    plot_paths(by_title, folder.path / "report.png")
    accepted = [accepted_table(mine, f"Accepted tokens: {title}", reference) for title, mine in by_title.items()]
    reached = [reach_table(mine, f"Reach: {title}") for title, mine in by_title.items()]
    failed = failed_table(summaries)
    paragraphs = about(folder, _told(folder.identity["processor"]))
    title = "Rules on recorded trees"
    tables = [table for table in (*accepted, *reached, failed) if table is not None]
    tell(folder, title, paragraphs, _drawn(folder), tables, [failed, *accepted])
    _page(folder, title, paragraphs, lambda: [Section(title, {}, [], tables)])


def _suffixes(identity: Mapping[str, Any]) -> dict[str, str]:
    """What the names of pictures end in, by data: nothing where there is one source."""
    sources = identity["data"]
    if len(sources) == 1:
        return dict.fromkeys(sources, "")
    return {data: f"_{at}_{re.sub(r'[^a-zA-Z0-9.-]+', '_', data)}" for at, data in enumerate(sources, 1)}


def _told(value: Any) -> str:
    """A field of an identity in words; of a merged run it is a list."""
    values = value if isinstance(value, list) else [value]
    return " or ".join(f"{one:g}" if isinstance(one, float) else str(one) for one in values)
