"""`otspec bench paths`: rules on recorded trees."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from otspec.cli import options
from otspec.cli.measuring import Against, asked, check_budget, conclude, only_compared, resumed
from otspec.cli.sources import by_name
from otspec.extras import require_extra


def bench_paths(
    context: typer.Context,
    data: Annotated[
        str,
        typer.Option(
            help="The recordings, a list: files of trees, as `otspec record --paths K --depth L` writes them, folders "
            "of such files, and shipped or smollm2, which come with the package."
        ),
    ] = "shipped,smollm2",
    solver: Annotated[
        str,
        typer.Option(
            help="The rules, a list of joint rules and of solvers that are applied token by token, or all; a/b is a, "
            "and b where a fails."
        ),
    ] = "nested,greedy_multi_path,traversal,layer,block,match,interval,kseq,rrs",
    reference: Annotated[
        str | None,
        typer.Option(help="The rule that the others are compared with.", show_default="interval, or the first"),
    ] = None,
    first: Annotated[
        int | None, options.count(help="How many trees of each file to measure, from the first on.", show_default="all")
    ] = None,
    seed: Annotated[int, options.seed(help="The seed of the verifications that are timed.")] = 0,
    budget: Annotated[
        float, typer.Option(help="Seconds for each rule and file; a rule that has used them gets no more trees.")
    ] = 120.0,
    beside: Annotated[
        list[Path] | None,
        typer.Option(help="A folder of results whose recordings the report shows as well; repeat it for more."),
    ] = None,
    against: Against = None,
    out: Annotated[Path, typer.Option(help="The folder for results; the same command again resumes it.")] = Path(
        "report_paths"
    ),
) -> None:
    """Compare rules on the same recorded trees: accepted tokens, exact given each tree.

    The command writes results.jsonl and results.parquet (a line per rule and tree), report.md with pictures and
    report.html, a page of the same, into the folder: of several recordings, a table of all, in which
    those of others are, too (--beside).  An interrupted run goes on where it stopped.  No model is needed.
    """
    if only_compared(context, out, against):
        return
    require_extra("bench", "report")  # before the work, not after it
    check_budget(budget, "rule")
    from otspec.bench.paths.driver import PathsBenchmark, run
    from otspec.bench.paths.summary import REFERENCE
    from otspec.bench.records import RecordFolder, as_stored
    from otspec.bench.spellings import every_rule
    from otspec.bench.stored import StoredRun, joined, read_run
    from otspec.data import open_trees

    rules, left_out = every_rule() if solver == "all" else ([word.strip() for word in solver.split(",")], [])
    if reference is None:
        reference = REFERENCE if REFERENCE in rules else rules[0]
    if reference not in rules:
        raise typer.BadParameter(
            f"{reference!r} is not among the rules of this run, {', '.join(rules)}; name it in --solver too",
            param_hint="--reference",
        )
    benchmark = PathsBenchmark(by_name(data, open_trees), rules, first, seed, budget)
    others = [read_run(path) for path in beside or ()]
    joined([StoredRun(out, as_stored(benchmark.identity), [], []), *others])  # refused before the work
    folder = RecordFolder(out, benchmark.identity)
    folder.begin(asked() | {"reference": reference})
    with resumed(folder, "measuring", benchmark.count, others) as progress:
        run(benchmark, folder, progress)
    conclude(folder, left_out, against)
