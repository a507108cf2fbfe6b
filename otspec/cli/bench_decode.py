"""`otspec bench decode`: rules in decoding."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from otspec.cli import options
from otspec.cli.drafters import DRAFTER_HELP, DrafterFiles
from otspec.cli.groups import Of, grouped
from otspec.cli.measuring import ShardOption, asked, check_budget, conclude, resumed
from otspec.cli.prompts import FORMAT, TASKS, read_prompts, read_tasks
from otspec.cli.sampling import MaxNewTokens, PairOptions, PlaceOptions, TruncationOptions
from otspec.decode.settings import DraftSettings
from otspec.errors import DataError
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


def _preset(context: typer.Context, name: str | None) -> str | None:
    """Let the options of a preset stand for those that are not given."""
    if name is not None:
        if name not in PRESETS:
            raise typer.BadParameter(f"no preset {name!r}; known: {', '.join(PRESETS)}")
        context.default_map = {**(context.default_map or {}), **PRESETS[name]}
    return name


@grouped
def bench_decode(
    *,
    pair: PairOptions,
    prompts: Annotated[Path | None, typer.Option(help=FORMAT, show_default="held-out text of the shipped pair")] = None,
    tasks: Annotated[Path | None, typer.Option(help=TASKS)] = None,
    first: Annotated[int, options.count(help="How many prompts to decode, from the first on.")] = 60,
    repeats: Annotated[
        int, options.count(help="How often each prompt is decoded, each time with other random numbers.")
    ] = 1,
    preset: Annotated[
        str | None,
        typer.Option(
            is_eager=True,
            callback=_preset,
            help=f"The options of a published table are taken: one of {', '.join(PRESETS)}.",
        ),
    ] = None,
    drafts: Annotated[
        dict[str, Any],
        Of(
            DraftSettings,
            listed=True,
            defaults={"paths": "2,3,4", "depth": "8"},
            leave_out=("solver", "branching", "law"),
        ),
    ],
    solver: Annotated[
        str,
        typer.Option(
            help="The rules, a list of joint rules and of solvers that are applied token by token, or all; a/b is a, "
            "and b where a fails."
        ),
    ] = "nested,interval,kseq,rrs,global_resolution/kseq",
    reference: Annotated[
        str | None, typer.Option(help="The rule that the others are compared with.", show_default="interval")
    ] = None,
    baselines: Annotated[
        str,
        typer.Option(help="The methods of `otspec decode` to compare with, a list; vanilla is measured in any case."),
    ] = "generate,single,block,prompt-lookup,assisted-lookup,assisted",
    drafter: Annotated[
        str | None,
        typer.Option(
            help=f"The drafters, a list of {DRAFTER_HELP}; full is the draft model as it is.", show_default="full"
        ),
    ] = None,
    files: DrafterFiles,
    assisted: Annotated[
        str | None,
        typer.Option(
            help="The settings of assisted: tokens of a draft, schedule and confidence, as in 20/constant/0.4.",
            show_default="the fastest on a few other prompts",
        ),
    ] = None,
    temperature: Annotated[
        str, typer.Option(help="The temperatures of both models, a list; 0 decodes greedily.")
    ] = "1",
    truncation: TruncationOptions,
    max_new_tokens: MaxNewTokens = 64,
    seed: Annotated[int, options.seed(help="The seed of the first text; the next one has seed + 1.")] = 0,
    budget: Annotated[
        float,
        typer.Option(
            help="Seconds of decoding for each row of the report; a row that has used them gets no more texts."
        ),
    ] = 120.0,
    place: PlaceOptions,
    shard: ShardOption = None,
    out: Annotated[Path, typer.Option(help="The folder for results; the same command again resumes it.")] = Path(
        "report_decode"
    ),
) -> None:
    """Decode the same prompts in every way, in turn: speed-ups and block efficiency with 95 % intervals, and the time.

    The command writes results.jsonl (a record per text), report.md with report.png and report.html, a page of the same,
    into the folder.  An interrupted run goes on where it stopped.  transformers' assisted generation is measured with
    the settings that are fastest on a few other prompts, unless --assisted names them.
    """
    check_budget(budget, "rule")
    if tasks is not None and prompts is not None:
        raise typer.BadParameter("--prompts is given too; leave one of them out", param_hint="--tasks")
    labelled = [] if tasks is None else read_tasks(tasks)
    texts = [one.prompt for one in labelled] or (None if prompts is None else read_prompts(prompts))
    if texts is None and pair.target != "shipped":
        raise DataError(f"no prompts for {pair.target}; pass --prompts FILE")
    counts, depths = drafts.pop("paths"), drafts.pop("depth")
    temperatures = options.numbers_of("--temperature", temperature, options.checked_temperature)
    combinations = [dict(zip(drafts, one, strict=True)) for one in itertools.product(*drafts.values())]
    settled = None if assisted is None else _assisted(assisted)
    from otspec.bench.shards import WHOLE, Shard

    part = WHOLE if shard is None else Shard.of(shard)  # refused before torch is loaded
    from otspec.bench.decoding.cells import decoding_grid
    from otspec.bench.decoding.driver import DecodingBenchmark, run
    from otspec.bench.records import RecordFolder
    from otspec.bench.spellings import every_rule
    from otspec.decode.methods.drafting import drafting
    from otspec.decode.pair.loading import encode
    from otspec.decode.shipped import held_out

    rules, left_out = every_rule() if solver == "all" else (options.words(solver), [])
    if reference is not None and reference not in rules:
        raise typer.BadParameter(
            f"{reference!r} is not among the rules of this run, {', '.join(rules)}; name it in --solver too",
            param_hint="--reference",
        )
    files.check(options.words(drafter or ""))
    named = ["" if word == FULL else word for word in options.words(drafter or FULL)]
    cells = decoding_grid(counts, depths, rules, options.words(baselines), temperatures, combinations, settled, named)
    progress_as_ours()
    models = pair.load(place)
    request = files.request(models, pair.target, pair.draft)
    benchmark = DecodingBenchmark(
        models,
        (pair.target, pair.draft),
        cells,
        held_out() if texts is None else encode(models.tokenizer, texts),
        first,
        repeats,
        truncation.all,
        max_new_tokens,
        seed,
        budget,
        part,
        [one.task for one in labelled],
        {name: drafting(name, request) for name in named if name},
    )
    folder = RecordFolder(out, benchmark.identity)
    folder.begin(asked(shard) | ({} if reference is None else {"reference": reference}))
    with resumed(folder, "decoding", benchmark.count) as progress:
        run(benchmark, folder, progress)
    conclude(folder, left_out)


def _assisted(text: str) -> tuple[int, str, float]:
    """Settings of transformers' assisted generation, of which it checks the words itself."""
    try:
        depth, schedule, confidence = text.split("/")
        return numbers("--assisted", depth)[0], schedule, float(confidence)
    except ValueError as error:
        raise typer.BadParameter(
            f"{text!r}; write tokens, schedule and confidence, as in 20/constant/0.4", param_hint="--assisted"
        ) from error
