"""`otspec bench decode`: rules in decoding."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from otspec.cli import options
from otspec.cli.measuring import about, asked, check_budget, conclude, resumed, tell
from otspec.cli.prompts import FORMAT, read_prompts
from otspec.cli.sampling import (
    Device,
    Draft,
    DraftTemperature,
    DraftTopK,
    DraftTopP,
    Dtype,
    MaxNewTokens,
    Target,
    Temperature,
    TopK,
    TopP,
    given,
)
from otspec.errors import DataError
from otspec.extras import require
from otspec.reporting.console import numbers, progress_as_ours
from otspec.reporting.machine import processor

if TYPE_CHECKING:
    from otspec.bench.decoding import DecodingBenchmark
    from otspec.bench.records import RecordFolder


def bench_decode(
    target: Target = "shipped",
    draft: Draft = "shipped",
    prompts: Annotated[Path | None, typer.Option(help=FORMAT, show_default="held-out text of the shipped pair")] = None,
    first: Annotated[int, options.count(help="Only so many prompts, from the first on.")] = 16,
    paths: Annotated[str, typer.Option(help="K, drafted paths, a list.")] = "2,3,4",
    depth: Annotated[int, options.count(help="L, tokens of a path.")] = 8,
    solver: Annotated[
        str,
        typer.Option(
            help="Joint rules, and solvers to apply token-wise, a list, or all; a/b is a, and b where a fails."
        ),
    ] = "nested,interval,kseq,rrs,naive,global_resolution/naive",
    baselines: Annotated[
        str, typer.Option(help="Other methods of `otspec decode`, a list; vanilla comes in any case.")
    ] = "single,block,prompt-lookup,typical,assisted",
    temperature: Temperature = 1.0,
    top_k: TopK = None,
    top_p: TopP = None,
    draft_temperature: DraftTemperature = None,
    draft_top_k: DraftTopK = None,
    draft_top_p: DraftTopP = None,
    max_new_tokens: MaxNewTokens = 64,
    seed: Annotated[int, options.seed(help="Of the first prompt; the next has seed + 1.")] = 0,
    budget: Annotated[float, typer.Option(help="Seconds of decoding per rule and K; then it gets no more.")] = 60.0,
    device: Device = None,
    dtype: Dtype = None,
    out: Annotated[Path, typer.Option(help="Folder for results; the same command again resumes it.")] = Path(
        "report_decode"
    ),
) -> None:
    """Decode the same prompts by every rule at every K: block efficiency, acceptance by depth, where the time goes.

    Leaves results.jsonl (a record per rule, K and prompt), report.md and report.png in the folder.  An interrupted run
    goes on where it stopped.
    """
    require("matplotlib")
    check_budget(budget, "rule")
    texts = None if prompts is None else read_prompts(prompts)
    if texts is None and target != "shipped":
        raise DataError(f"no prompts for {target}; pass --prompts FILE")
    from otspec.bench.decoding import DecodingBenchmark, decoding_grid, every_rule, run
    from otspec.bench.records import RecordFolder
    from otspec.decode.models.loading import encode, load_models
    from otspec.decode.shipped import held_out

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
        given(draft_temperature=draft_temperature, draft_top_k=draft_top_k, draft_top_p=draft_top_p),
    )
    folder = RecordFolder(out, benchmark.identity)
    folder.begin(asked())
    total = len(cells) * min(first, len(rows))
    with resumed(folder, "decoding", total, lambda: _report(benchmark, folder)) as progress:
        run(benchmark, folder, progress)
    conclude(folder, ("report.md", "report.png", "results.jsonl"), left_out)


def _words(text: str) -> list[str]:
    return [word for item in text.split(",") if (word := item.strip())]


def _report(benchmark: DecodingBenchmark, folder: RecordFolder) -> None:
    """Tables and picture of all that the folder holds."""
    from otspec.bench.decoding_report import decoding_table, efficiency_table, failed_table, plot_decoding, summarise

    summaries = summarise(folder.records)
    if not summaries:
        return
    sampling = given(**benchmark.sampling, **benchmark.drafts)
    cut = "".join(f", {name} {value}" for name, value in sampling.items())
    title = f"L = {benchmark.depth}{cut}"
    plot_decoding(summaries, title, folder.path / "report.png")
    tables = (
        decoding_table(summaries, f"Decoding: {title}"),
        failed_table(summaries),
        efficiency_table(summaries, f"Block efficiency: {title}"),
    )
    identity = benchmark.identity
    machine = f"{processor()}, {identity['device']}, {identity['threads']} thread(s)"
    title = "Multi-draft decoding: rules and methods to compare with"
    tell(folder, title, about(folder, identity, machine), ["report.png"], tables, tables)
