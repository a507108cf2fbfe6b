"""`otspec bench paths`: rules on recorded trees."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import typer

from otspec.cli import options
from otspec.cli.groups import with_option_groups
from otspec.cli.run_folder import Against, check_budget, check_reference, conclude, only_compared, resumed, run_record
from otspec.cli.sources import by_name
from otspec.extras import require_extra
from otspec.settings import Count, Seed


@dataclass(frozen=True, kw_only=True)
class BenchPathsOptions:
    """What `otspec bench paths` takes."""

    data: str = "shipped,smollm2"
    """The recordings, a list: files of trees, as `otspec record --paths K --depth L` writes them, folders of such
    files, and shipped or smollm2, which come with the package."""
    solver: str = "nested,greedy_multi_path,traversal,layer,block,match,interval,kseq,rrs"
    """The rules, a list of joint rules and of solvers that are applied token by token, or all; a/b is a, and b
    where a fails."""
    reference: str | None = None
    """The rule that the others are compared with; by default interval, or the first."""
    first: Count | None = None
    """How many trees of each file to measure, from the first on; by default all."""
    seed: Seed = 0
    """The seed of the verifications that are timed."""
    budget: float = 120.0
    """Seconds for each rule and file; a rule that has used them gets no more trees."""
    beside: list[Path] | None = None
    """A folder of results whose recordings the report shows as well; repeat it for more."""
    against: Against = None
    out: Path = Path("report_paths")
    """The folder for results; the same command again resumes it."""


@with_option_groups
def bench_paths(context: typer.Context, request: BenchPathsOptions) -> None:
    """Compare rules on the same recorded trees: accepted tokens, exact given each tree.

    The command writes results.jsonl and results.parquet (a line per rule and tree), report.md with pictures and
    report.html, a page of the same, into the folder; for several recordings, those of --beside included, also
    a table of all.  An interrupted run goes on where it stopped.  No model is needed.
    """
    require_extra("bench", "report")  # before the work, not after it
    if only_compared(context, request.out, request.against):
        return
    check_budget(request.budget, "rule")
    from otspec.bench.paths.driver import PathsBenchmark, run
    from otspec.bench.paths.summary import REFERENCE
    from otspec.bench.records import RecordFolder, as_stored
    from otspec.bench.spellings import every_rule, spelt_out
    from otspec.bench.stored import StoredRun, joined, read_run
    from otspec.data import open_trees

    rules, left_out = spelt_out(options.words(request.solver), every_rule)
    reference = request.reference or (REFERENCE if REFERENCE in rules else rules[0])
    check_reference(reference, rules)
    benchmark = PathsBenchmark(by_name(request.data, open_trees), rules, request.first, request.seed, request.budget)
    others = [read_run(path) for path in request.beside or ()]
    joined([StoredRun(request.out, as_stored(benchmark.identity), [], []), *others])  # refused before the work
    folder = RecordFolder(request.out, benchmark.identity)
    folder.begin(run_record() | {"reference": reference})
    with resumed(folder, "measuring", benchmark.count, others) as progress:
        run(benchmark, folder, progress)
    conclude(folder, left_out, request.against)
