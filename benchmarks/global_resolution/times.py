"""Tables 1 and 3 of [thomas2025global]: solve times and success rates, beside the paper's, with `interval` added.

    python -m benchmarks.global_resolution.times [--data llama3|gemma2] [--positions 100] [--out report/times_llama3]

Table 1 is for llama3, Table 3 for gemma2.  An interrupted run goes on where it stopped.
"""

from __future__ import annotations

from benchmarks.global_resolution.measured import RESOLUTION, measure
from otspec.bench import Cell
from otspec.bench.driver import processor
from otspec.bench.published import PUBLISHED
from otspec.bench.report import failures_table, markdown_report, published_table, results_table
from otspec.bench.summary import summarise
from otspec.reporting.console import console

SOLVERS = ("lp", "max_flow", "slackness", *RESOLUTION, "interval")
SETTINGS = tuple(PUBLISHED["llama3"][1])


def main() -> None:
    """Measure and print."""
    cells = [Cell(k, n, solver) for k, n in SETTINGS for solver in SOLVERS]
    benchmark, folder = measure("Tables 1 and 3: solve times and success rates.", cells, "report/times")
    name = benchmark.source.name
    summaries = [summarise(cell, folder.of(cell)) for cell in cells if folder.of(cell)]
    tables = [published_table(summaries, name), results_table(summaries, name), failures_table(summaries)]
    (folder.path / "report.md").write_text(markdown_report(tables, [], processor()))
    for table in reversed(tables):
        if table is not None:
            console.print(table.on_screen(console.width))
    console.print(f"Wrote {folder.path}/report.md, results.jsonl, results.parquet")


if __name__ == "__main__":
    main()
