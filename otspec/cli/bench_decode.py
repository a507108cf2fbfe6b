"""`otspec bench decode`: rules in decoding."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from otspec.cli import options
from otspec.cli.measuring import about, asked, check_budget, conclude, resumed, tell
from otspec.cli.prompts import FORMAT, read_prompts
from otspec.cli.sampling import Device, Draft, Dtype, MaxNewTokens, Target, TopK, TopP
from otspec.errors import DataError
from otspec.extras import require
from otspec.reporting.console import numbers, progress_as_ours
from otspec.reporting.machine import processor

if TYPE_CHECKING:
    from otspec.bench.decoding import DecodingBenchmark
    from otspec.bench.records import RecordFolder

PRESETS: Mapping[str, Mapping[str, str]] = {
    "gr-table-4": {
        "paths": "2,3,4",
        "depth": "8",
        "draft_top_k": "10,100",
        "solver": "nested,interval,kseq,global_resolution/kseq",
        "temperature": "1",
    }
}
"""Options by the names of what is to be repeated: Table 4 of Global Resolution, drafts truncated, the target whole."""


def _preset(context: typer.Context, name: str | None) -> str | None:
    """Let the options of a preset stand for those that are not given."""
    if name is not None:
        if name not in PRESETS:
            raise typer.BadParameter(f"no preset {name!r}; known: {', '.join(PRESETS)}")
        context.default_map = {**(context.default_map or {}), **PRESETS[name]}
    return name


def bench_decode(
    target: Target = "shipped",
    draft: Draft = "shipped",
    prompts: Annotated[Path | None, typer.Option(help=FORMAT, show_default="held-out text of the shipped pair")] = None,
    first: Annotated[int, options.count(help="Only so many prompts, from the first on.")] = 60,
    repeats: Annotated[
        int, options.count(help="Decode each prompt so often, each time with other random numbers.")
    ] = 1,
    preset: Annotated[
        str | None,
        typer.Option(
            is_eager=True, callback=_preset, help=f"Options of a published table, one of {', '.join(PRESETS)}."
        ),
    ] = None,
    paths: Annotated[str, typer.Option(help="K, drafted paths, a list.")] = "2,3,4",
    depth: Annotated[str, typer.Option(help="L, tokens of a path, a list.")] = "8",
    solver: Annotated[
        str,
        typer.Option(
            help="Joint rules, and solvers to apply token-wise, a list, or all; a/b is a, and b where a fails."
        ),
    ] = "nested,interval,kseq,rrs,global_resolution/kseq",
    reference: Annotated[
        str | None, typer.Option(help="The rule that others are compared with.", show_default="interval")
    ] = None,
    baselines: Annotated[
        str, typer.Option(help="Other methods of `otspec decode`, a list; vanilla comes in any case.")
    ] = "generate,single,block,prompt-lookup,assisted-lookup,assisted",
    temperature: Annotated[str, typer.Option(help="Of both models, a list; 0 is greedy.")] = "1",
    top_k: TopK = None,
    top_p: TopP = None,
    draft_top_k: Annotated[
        str | None, typer.Option(help="Draft from the k likeliest tokens, a list; V is all. The target stays whole.")
    ] = None,
    draft_top_p: Annotated[
        str | None, typer.Option(help="Draft from the likeliest tokens of this mass, a list.")
    ] = None,
    draft_temperature: Annotated[
        str | None, typer.Option(help="Draft at this temperature, a list.", show_default="that of the texts")
    ] = None,
    draft_confidence: Annotated[
        str | None,
        typer.Option(
            help="End a path after the token at which the draft model's probabilities of its tokens have a smaller "
            "product, a list; 0: draft whole paths."
        ),
    ] = None,
    max_new_tokens: MaxNewTokens = 64,
    seed: Annotated[int, options.seed(help="Of the first text; the next has seed + 1.")] = 0,
    budget: Annotated[
        float, typer.Option(help="Seconds of decoding per row of the report; then it gets no more.")
    ] = 120.0,
    device: Device = None,
    dtype: Dtype = None,
    out: Annotated[Path, typer.Option(help="Folder for results; the same command again resumes it.")] = Path(
        "report_decode"
    ),
) -> None:
    """Decode the same prompts in every way, in turn: speed-ups and block efficiency with 95 % intervals, and the time.

    Leaves results.jsonl (a record per text), report.md and report.png in the folder.  An interrupted run goes on where
    it stopped.  transformers' assisted generation is measured with the settings that are fastest on a few other
    prompts.
    """
    require("matplotlib")
    check_budget(budget, "rule")
    texts = None if prompts is None else read_prompts(prompts)
    if texts is None and target != "shipped":
        raise DataError(f"no prompts for {target}; pass --prompts FILE")
    counts, depths = numbers("--paths", paths), numbers("--depth", depth)
    temperatures = options.numbers_of("--temperature", temperature, options.checked_temperature)
    truncations = _truncations(draft_top_k, draft_top_p, draft_temperature, draft_confidence)
    from otspec.bench.decoding import DecodingBenchmark, run
    from otspec.bench.decoding_cells import decoding_grid, every_rule
    from otspec.bench.records import RecordFolder
    from otspec.decode.models.loading import encode, load_models
    from otspec.decode.shipped import held_out

    rules, left_out = every_rule() if solver == "all" else (_words(solver), [])
    if reference is not None and reference not in rules:
        raise typer.BadParameter(
            f"{reference!r} is not among the rules of this run, {', '.join(rules)}; name it in --solver too",
            param_hint="--reference",
        )
    cells = decoding_grid(counts, depths, rules, _words(baselines), temperatures, truncations)
    progress_as_ours()
    models = load_models(target, draft, device, dtype)
    benchmark = DecodingBenchmark(
        models,
        (target, draft),
        cells,
        held_out() if texts is None else encode(models.tokenizer, texts),
        first,
        repeats,
        {"top_k": top_k, "top_p": top_p},
        max_new_tokens,
        seed,
        budget,
    )
    folder = RecordFolder(out, benchmark.identity)
    folder.begin(asked())
    with resumed(folder, "decoding", benchmark.count, lambda: _report(benchmark, folder, reference)) as progress:
        run(benchmark, folder, progress)
    conclude(folder, ("report.md", "report.png", "results.jsonl"), left_out)


def _words(text: str) -> list[str]:
    return [word for item in text.split(",") if (word := item.strip())]


def _truncations(
    top_k: str | None, top_p: str | None, temperature: str | None, confidence: str | None
) -> list[dict[str, float]]:
    """Every combination of what was asked for of the drafts."""
    values: dict[str, Sequence[float]] = {}
    if top_k is not None:
        values["draft_top_k"] = numbers("--draft-top-k", top_k, {"V": 0, "0": 0})
    if top_p is not None:
        values["draft_top_p"] = options.numbers_of("--draft-top-p", top_p, options.checked_mass)
    if temperature is not None:
        values["draft_temperature"] = options.numbers_of(
            "--draft-temperature", temperature, options.checked_temperature
        )
    if confidence is not None:
        values["draft_confidence"] = options.numbers_of("--draft-confidence", confidence, _checked_confidence)
    return [dict(zip(values, one, strict=True)) for one in itertools.product(*values.values())]


def _checked_confidence(value: float) -> float:
    if not 0 <= value <= 1:
        raise typer.BadParameter(f"{value} is no probability in [0, 1]", param_hint="--draft-confidence")
    return value


def _report(benchmark: DecodingBenchmark, folder: RecordFolder, reference: str | None) -> None:
    """Tables and picture of all that the folder holds."""
    from otspec.bench.decoding_plot import plot_decoding
    from otspec.bench.decoding_report import (
        choice_table,
        decoding_table,
        efficiency_table,
        failed_table,
        speed_up_table,
    )
    from otspec.bench.decoding_summary import REFERENCE, summarise

    rule = REFERENCE if reference is None else reference
    summaries = summarise(folder.records, rule)
    if not summaries:
        return
    cut = [f"{name} {value}" for name, value in benchmark.sampling.items() if value is not None]
    plot_decoding(summaries, ", ".join([*cut, f"{benchmark.max_new_tokens} new tokens"]), folder.path / "report.png")
    written, shown = [], []
    for temperature in dict.fromkeys(one.cell.temperature for one in summaries):
        mine = [one for one in summaries if one.cell.temperature == temperature]
        title = ", ".join([f"temperature {temperature:g}", *cut])
        fast = speed_up_table(mine, f"Speed-up: {title}")
        efficient = efficiency_table(mine, f"Block efficiency: {title}")
        written += [fast, efficient, decoding_table(mine, f"Decoding: {title}", rule)]
        shown += [efficient, fast]
    others = [choice_table(folder.records), failed_table(summaries)]
    identity = benchmark.identity
    machine = f"{processor()}, {identity['device']}, {identity['threads']} thread(s)"
    title = "Multi-draft decoding: rules and methods to compare with"
    tell(folder, title, about(folder, identity, machine), ["report.png"], [*written, *others], [others[1], *shown])
