"""`otspec bench decode`: rules in decoding."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from otspec.bench.records import RecordFolder
from otspec.cli.decode import DEVICE, DTYPE, MODEL
from otspec.cli.prompts import FORMAT, read_prompts
from otspec.errors import DataError
from otspec.extras import require
from otspec.reporting.console import console, numbers, progress_as_ours, progress_bar
from otspec.reporting.machine import processor
from otspec.reporting.tables import markdown_report

if TYPE_CHECKING:
    from otspec.bench.decoding import DecodingBenchmark


def bench_decode(
    target: Annotated[str, typer.Option(help=f"The model whose text it is: {MODEL}")] = "shipped",
    draft: Annotated[str, typer.Option(help="The model that drafts, named likewise.")] = "shipped",
    prompts: Annotated[Path | None, typer.Option(help=FORMAT, show_default="held-out text of the shipped pair")] = None,
    first: Annotated[int, typer.Option(help="Only so many prompts, from the first on.", min=1)] = 16,
    paths: Annotated[str, typer.Option(help="K, drafted paths, a list.")] = "2,3,4",
    depth: Annotated[int, typer.Option(help="L, tokens of a path.", min=1)] = 8,
    solver: Annotated[
        str,
        typer.Option(
            help="Joint rules, and solvers to apply token-wise, a list, or all; a/b is a, and b where a fails."
        ),
    ] = "nested,interval,kseq,rrs,naive,global_resolution/naive",
    baselines: Annotated[
        str, typer.Option(help="Other methods of `otspec decode`, a list; vanilla comes in any case.")
    ] = "single,block,prompt-lookup,typical,assisted",
    temperature: Annotated[float, typer.Option(help="Of both models; 0 is greedy.")] = 1.0,
    top_k: Annotated[int | None, typer.Option(help="Keep the k likeliest tokens of both models.")] = None,
    top_p: Annotated[float | None, typer.Option(help="Keep the likeliest tokens of this mass.")] = None,
    max_new_tokens: Annotated[int, typer.Option(help="Of every text.", min=1)] = 64,
    seed: Annotated[int, typer.Option(help="Of the first prompt; the next has seed + 1.", min=0)] = 0,
    budget: Annotated[float, typer.Option(help="Seconds of decoding per rule and K; then it gets no more.")] = 60.0,
    device: Annotated[str | None, typer.Option(help=DEVICE)] = None,
    dtype: Annotated[str | None, typer.Option(help=DTYPE)] = None,
    out: Annotated[Path, typer.Option(help="Folder for results; the same command again resumes it.")] = Path(
        "report_decode"
    ),
) -> None:
    """Decode the same prompts by every rule at every K: block efficiency, acceptance by depth, where the time goes.

    Leaves results.jsonl (a record per rule, K and prompt), report.md and report.png in the folder.  An interrupted run
    goes on where it stopped.
    """
    require("matplotlib")
    if not budget > 0:
        raise typer.BadParameter(f"{budget} s; grant each rule some time", param_hint="--budget")
    texts = None if prompts is None else read_prompts(prompts)
    if texts is None and target != "shipped":
        raise DataError(f"no prompts for {target}; pass --prompts FILE")
    from otspec.bench.decoding import DecodingBenchmark, decoding_grid, every_rule, held_out, run
    from otspec.decode.models.loading import encode, load_models

    rules, left_out = every_rule() if solver == "all" else (_words(solver), [])
    cells = decoding_grid(numbers("--paths", paths), rules, _words(baselines))
    progress_as_ours()
    models = load_models(target, draft, device, dtype)
    rows = held_out() if texts is None else encode(models.tokenizer, texts)
    benchmark = DecodingBenchmark(
        models,
        (target, draft),
        cells,
        rows,
        first,
        depth,
        {"temperature": temperature, "top_k": top_k, "top_p": top_p},
        max_new_tokens,
        seed,
        budget,
    )
    folder = RecordFolder(out, benchmark.identity)
    try:
        with progress_bar() as bar:
            task = bar.add_task("decoding", total=len(cells) * min(first, len(rows)))
            run(benchmark, folder, lambda steps: bar.advance(task, steps))
    except KeyboardInterrupt:
        console.print(f"interrupted; the same command goes on from {len(folder.records)} records", style="yellow")
        raise typer.Exit(130) from None
    finally:
        folder.close()
        _report(benchmark, folder)
    if left_out:
        console.print(f"Not installed, so left out: {', '.join(left_out)}. See `otspec solvers`.")
    console.print(f"Wrote {out}/report.md, report.png, results.jsonl")


def _words(text: str) -> list[str]:
    return [word for item in text.split(",") if (word := item.strip())]


def _report(benchmark: DecodingBenchmark, folder: RecordFolder) -> None:
    """Tables and picture of all that the folder holds."""
    from otspec.bench.decoding_report import decoding_table, efficiency_table, failed_table, plot_decoding, summarise

    summaries = summarise(folder.records)
    if not summaries:
        return
    cut = "".join(f", {name} {value}" for name, value in benchmark.sampling.items() if value is not None)
    title = f"L = {benchmark.depth}{cut}"
    plot_decoding(summaries, title, folder.path / "report.png")
    tables = (
        decoding_table(summaries, f"Decoding: {title}"),
        failed_table(summaries),
        efficiency_table(summaries, f"Block efficiency: {title}"),
    )
    threads = benchmark.identity["threads"]
    machine = f"{processor()}, {benchmark.identity['device']}, {threads} thread(s)"
    (folder.path / "report.md").write_text(
        markdown_report(tables, ["report.png"], machine, "Multi-draft decoding: rules and methods to compare with")
    )
    for table in tables:
        if table is not None:
            console.print(table.on_screen(console.width))
