"""`otspec bench decode`: rules in decoding."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from otspec.cli import options
from otspec.cli.drafters import (
    DRAFTER_HELP,
    AffinityFile,
    Frequencies,
    RouterFile,
    asked_of_drafters,
    read_counts,
)
from otspec.cli.measuring import ShardOption, asked, check_budget, conclude, resumed
from otspec.cli.prompts import FORMAT, TASKS, read_prompts, read_tasks
from otspec.cli.reports import report, written
from otspec.cli.sampling import Device, Draft, Dtype, MaxNewTokens, Target, TopK, TopP
from otspec.errors import DataError
from otspec.extras import require
from otspec.reporting.console import numbers, progress_as_ours

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


FULL = "full"
"""The draft model with its whole vocabulary, among names of drafters."""
FIXED = "fixed"
"""All steps drafting alike, among paces."""


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
    tasks: Annotated[Path | None, typer.Option(help=TASKS)] = None,
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
    drafter: Annotated[
        str | None,
        typer.Option(help=f"What drafts, a list: {DRAFTER_HELP}; full is the draft model.", show_default="full"),
    ] = None,
    frequencies: Frequencies = None,
    router: RouterFile = None,
    affinity: AffinityFile = None,
    assisted: Annotated[
        str | None,
        typer.Option(
            help="Settings of assisted: tokens of a draft, schedule and confidence, as in 20/constant/0.4.",
            show_default="the fastest on a few other prompts",
        ),
    ] = None,
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
    pace: Annotated[
        str | None,
        typer.Option(
            help="What steps draft, a list: fixed is all L tokens, goodput as many, 0 to L, as promise the most a "
            "second.",
            show_default=FIXED,
        ),
    ] = None,
    max_new_tokens: MaxNewTokens = 64,
    seed: Annotated[int, options.seed(help="Of the first text; the next has seed + 1.")] = 0,
    budget: Annotated[
        float, typer.Option(help="Seconds of decoding per row of the report; then it gets no more.")
    ] = 120.0,
    device: Device = None,
    dtype: Dtype = None,
    shard: ShardOption = None,
    out: Annotated[Path, typer.Option(help="Folder for results; the same command again resumes it.")] = Path(
        "report_decode"
    ),
) -> None:
    """Decode the same prompts in every way, in turn: speed-ups and block efficiency with 95 % intervals, and the time.

    Leaves results.jsonl (a record per text), report.md with report.png and report.html, a page of the same, in the
    folder.  An interrupted run goes on where it stopped.  transformers' assisted generation is measured with the
    settings that are fastest on a few other prompts, unless --assisted names them.
    """
    require("matplotlib")
    check_budget(budget, "rule")
    if tasks is not None and prompts is not None:
        raise typer.BadParameter("--prompts is given too; leave one of them out", param_hint="--tasks")
    labelled = [] if tasks is None else read_tasks(tasks)
    texts = [one.prompt for one in labelled] or (None if prompts is None else read_prompts(prompts))
    if texts is None and target != "shipped":
        raise DataError(f"no prompts for {target}; pass --prompts FILE")
    counts, depths = numbers("--paths", paths), numbers("--depth", depth)
    temperatures = options.numbers_of("--temperature", temperature, options.checked_temperature)
    truncations = _truncations(draft_top_k, draft_top_p, draft_temperature, draft_confidence, pace)
    settled = None if assisted is None else _assisted(assisted)
    from otspec.bench.shards import WHOLE, Shard

    part = WHOLE if shard is None else Shard.of(shard)  # refused before torch is loaded
    from otspec.bench.cells import every_rule
    from otspec.bench.decoding import DecodingBenchmark, run
    from otspec.bench.decoding_cells import decoding_grid
    from otspec.bench.records import RecordFolder
    from otspec.decode.methods.drafting import Given, drafting
    from otspec.decode.pair.loading import encode, load_models
    from otspec.decode.shipped import held_out

    rules, left_out = every_rule() if solver == "all" else (_words(solver), [])
    if reference is not None and reference not in rules:
        raise typer.BadParameter(
            f"{reference!r} is not among the rules of this run, {', '.join(rules)}; name it in --solver too",
            param_hint="--reference",
        )
    asked_of_drafters(_words(drafter or ""), frequencies=frequencies, router=router, affinity=affinity)
    named = ["" if word == FULL else word for word in _words(drafter or FULL)]
    cells = decoding_grid(counts, depths, rules, _words(baselines), temperatures, truncations, settled, named)
    progress_as_ours()
    models = load_models(target, draft, device, dtype)
    given = Given(models, target, draft, None, read_counts(frequencies), router, affinity)
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
        part,
        [one.task for one in labelled],
        {name: drafting(name, given) for name in named if name},
    )
    folder = RecordFolder(out, benchmark.identity)
    folder.begin(asked(shard) | ({} if reference is None else {"reference": reference}))
    with resumed(folder, "decoding", benchmark.count, lambda: report(folder)) as progress:
        run(benchmark, folder, progress)
    conclude(folder, [*written(folder), "results.jsonl"], left_out)


def _words(text: str) -> list[str]:
    return [word for item in text.split(",") if (word := item.strip())]


def _assisted(text: str) -> tuple[int, str, float]:
    """Settings of transformers' assisted generation, of which it checks the words itself."""
    try:
        depth, schedule, confidence = text.split("/")
        return numbers("--assisted", depth)[0], schedule, float(confidence)
    except ValueError as error:
        raise typer.BadParameter(
            f"{text!r}; write tokens, schedule and confidence, as in 20/constant/0.4", param_hint="--assisted"
        ) from error


def _truncations(
    top_k: str | None, top_p: str | None, temperature: str | None, confidence: str | None, pace: str | None
) -> list[dict[str, Any]]:
    """Every combination of what was asked for of the drafts."""
    values: dict[str, Sequence[Any]] = {}
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
    if pace is not None:
        values["pace"] = [_checked_pace(word) for word in _words(pace)]
    return [dict(zip(values, one, strict=True)) for one in itertools.product(*values.values())]


def _checked_pace(word: str) -> str | None:
    if word not in (FIXED, "goodput"):
        raise typer.BadParameter(f"{word!r} is no pace; write a list of {FIXED}, goodput", param_hint="--pace")
    return None if word == FIXED else word


def _checked_confidence(value: float) -> float:
    if not 0 <= value <= 1:
        raise typer.BadParameter(f"{value} is no probability in [0, 1]", param_hint="--draft-confidence")
    return value
