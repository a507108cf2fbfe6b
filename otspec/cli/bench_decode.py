"""`otspec bench decode`: rules in decoding."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from otspec.cli import options
from otspec.cli.drafters import DrafterFiles
from otspec.cli.groups import OptionsFrom, with_option_groups
from otspec.cli.names import COMPARED, RULES
from otspec.cli.prompts import ChatOptions, Prompt, read_prompts, read_tasks
from otspec.cli.run_folder import Against, check_budget, check_reference, conclude, only_compared, resumed, run_record
from otspec.cli.sampling import NONE, DecodingOptions, PairOptions, Truncation, sampling_of
from otspec.decode.settings import DraftSettings
from otspec.errors import DataError
from otspec.extras import require_extra
from otspec.reporting.console import numbers, progress_as_ours
from otspec.settings import Count, Seed

PRESETS: Mapping[str, Mapping[str, Any]] = {
    "gr-table-4": {
        "paths": "2,3,4",
        "depth": "8",
        "draft_top_k": "10,100",
        "solver": "global_resolution/naive,global_resolution/kseq,nested,interval,kseq",
        "temperature": "1",
    },
    "dynaspec-table-1": {
        "paths": "4",
        "depth": "6",
        "drafter": "full,fr,dynaspec-f,dynaspec,eagle,eagle+fr,eagle+dynaspec-f,eagle+dynaspec",
        "solver": "",
        "baselines": "dynamic-tree",
        "temperature": "0,1",
        "tasks": ["held-out", "shipped"],
        "turns": "first",
        "prompt_tokens": "160",
        "first": "56",
        "max_new_tokens": "40",
    },
}
"""Options, by the name of the published table that they reproduce.

Table 4 of Global Resolution: drafts truncated, the target whole.  As printed, a token is drawn from p where global
resolution fails (`naive`); the paper expects more of K-SEQ there.  Table 1 of DynaSpec: dynamic trees of two draft
models whose heads are whole, or computed for the most frequent tokens, or for clusters that a router chooses.
"""

FULL = "full"
"""The draft model with its whole vocabulary, among names of drafters."""


def _preset(context: typer.Context, name: str | None) -> str | None:
    """Make the options of a preset the defaults of those that are not given."""
    if name is not None:
        if name not in PRESETS:
            raise typer.BadParameter(f"no preset {name!r}; known: {', '.join(PRESETS)}")
        context.default_map = {**(context.default_map or {}), **PRESETS[name]}
    return name


@dataclass(frozen=True, kw_only=True)
class TextOptions:
    """The prompts, and how they are decoded."""

    prompts: Path | None = None
    """{FORMAT} By default held-out text of the shipped pair."""
    tasks: list[Path] | None = None
    """{TASKS}"""
    first: Count = 60
    """How many prompts to decode, from the first on."""
    repeats: Count = 1
    """How often each prompt is decoded, each time with other random numbers."""

    def read(self, target: str) -> list[Prompt] | None:
        """The prompts of the files; None for those of the shipped pair."""
        if self.tasks and self.prompts is not None:
            raise typer.BadParameter("--prompts is given too; leave one of them out", param_hint="--tasks")
        if self.tasks:
            return read_tasks(self.tasks)
        if self.prompts is None and target != "shipped":
            raise DataError(f"no prompts for {target}; pass --prompts FILE or --tasks FILE")
        return None if self.prompts is None else read_prompts(self.prompts)


@dataclass(frozen=True, kw_only=True)
class RuleOptions:
    """The rules and methods that are compared."""

    solver: str | None = None
    """The rules, a list of joint rules and of solvers that are applied token by token, or all; a/b is a, and b
    where a fails; by default {RULES}; without a draft model, none."""
    reference: str | None = None
    """The rule that the others are compared with; by default interval."""
    baselines: str | None = None
    """The methods of `otspec decode` to compare with, a list; vanilla is measured in any case; by default
    {COMPARED}; of these, those that can use the draft model."""
    assisted: str | None = None
    """The settings of assisted: tokens of a draft, schedule and confidence, as in 20/constant/0.4; by default the
    fastest on a few other prompts."""

    def named(self, pair: PairOptions, alone: bool) -> str:
        """The rules as a list, of a pair or of a target alone."""
        if alone and self.solver is not None:
            pair.check_drafts("rules verify what one drafts: leave out --solver")
        return ("" if alone else RULES) if self.solver is None else self.solver

    @property
    def settled(self) -> tuple[int, str, float] | None:
        """The settings of assisted generation, if they are named."""
        return None if self.assisted is None else _assisted(self.assisted)


@dataclass(frozen=True, kw_only=True)
class BenchDecodeOptions:
    """What `otspec bench decode` takes."""

    pair: PairOptions
    text: TextOptions
    chat: ChatOptions
    preset: Annotated[
        str | None,
        typer.Option(
            is_eager=True, callback=_preset, help=f"Take the options of a published table: one of {', '.join(PRESETS)}."
        ),
    ] = None
    drafts: Annotated[
        dict[str, Any],
        OptionsFrom(
            DraftSettings, listed=True, defaults={"depth": "8"}, leave_out=("solver", "branching", "tree", "law")
        ),
    ]
    rules: RuleOptions
    drafter: str | None = None
    """The drafters, a list of {DRAFTER_HELP}; full is the draft model as it is; by default full."""
    files: DrafterFiles
    temperature: str = "1"
    """The temperatures of both models, a list; 0 decodes greedily."""
    batch: str = "1"
    """How many texts are decoded together, a list."""
    truncation: Truncation
    max_new_tokens: Count = 64
    """How many new tokens every text gets at most."""
    seed: Seed = 0
    """The seed of the first text; the next one has seed + 1."""
    budget: float = 120.0
    """Seconds of decoding for each row of the report; a row that has used them gets no more texts."""
    place: DecodingOptions
    against: Against = None
    out: Path = Path("report_decode")
    """The folder for results; the same command again resumes it."""


@with_option_groups
@with_option_groups
def bench_decode(context: typer.Context, request: BenchDecodeOptions) -> None:
    """Decode the same prompts in every way, in turn: speed-ups and block efficiency with 95 % intervals, and the time.

    The command writes results.jsonl (a record per text), report.md with report.png and report.html, a page of the same,
    into the folder.  An interrupted run goes on where it stopped.  transformers' assisted generation is measured with
    the settings that are fastest on a few other prompts, unless --assisted names them.
    """
    require_extra("bench", "report")  # before the work, not after it
    if only_compared(context, request.out, request.against):
        return
    pair, rules = request.pair, request.rules
    check_budget(request.budget, "rule")
    prompts = request.text.read(pair.target)
    alone = pair.names[1] == NONE and request.drafter is None
    solver = rules.named(pair, alone)
    counts, depths = request.drafts.pop("paths", [1] if alone else [2, 3, 4]), request.drafts.pop("depth")
    batches = numbers("--batch", request.batch)
    temperatures = options.numbers_of("--temperature", request.temperature, options.checked_temperature)
    combinations = [dict(zip(request.drafts, one, strict=True)) for one in itertools.product(*request.drafts.values())]
    from otspec.bench.decoding.cells import decoding_grid
    from otspec.bench.decoding.driver import DecodingBenchmark, run
    from otspec.bench.records import RecordFolder
    from otspec.bench.spellings import every_rule, spelt_out
    from otspec.decode.methods.assisted import is_known
    from otspec.decode.methods.drafting import drafting
    from otspec.decode.pair.conversations import Conversation
    from otspec.decode.shipped import held_out

    methods = _compared(pair, alone, rules.baselines)
    spellings, left_out = spelt_out(options.words(solver), every_rule)
    check_reference(rules.reference, spellings)
    request.files.check(options.words(request.drafter or ""))
    named = ["" if word == FULL else word for word in options.words(request.drafter or FULL)]
    cells = decoding_grid(counts, depths, spellings, methods, temperatures, combinations, rules.settled, named, batches)
    progress_as_ours()
    request.place.use_threads(max(batches))
    models = pair.load(request.place)
    if rules.baselines is None and models.draft is not None and not is_known(models.draft):
        cells = [cell for cell in cells if cell.method != "assisted"]
    wanted = request.files.request(models, *pair.names)
    own = None if prompts is None else request.chat.conversations(prompts, models, request.max_new_tokens)
    benchmark = DecodingBenchmark(
        models,
        pair.names,
        cells,
        [Conversation(row) for row in held_out()] if own is None else own,
        request.text.first,
        request.text.repeats,
        sampling_of(request.truncation),
        request.max_new_tokens,
        request.seed,
        request.budget,
        [one.task for one in prompts] if prompts and request.text.tasks else [],
        {name: drafting(name, wanted) for name in named if name},
    )
    folder = RecordFolder(request.out, benchmark.identity)
    folder.begin(run_record() | ({} if rules.reference is None else {"reference": rules.reference}))
    with resumed(folder, "decoding", benchmark.count) as progress:
        run(benchmark, folder, progress)
    conclude(folder, left_out, request.against)


def _compared(pair: PairOptions, alone: bool, baselines: str | None) -> list[str]:
    """The methods to compare with; where there is no draft model, those that need none."""
    from otspec.decode.methods.catalogue import METHODS

    names = options.words(COMPARED if baselines is None else baselines)
    need = [name for name in names if alone and name in METHODS and METHODS[name].drafts]
    if need and baselines is not None:
        pair.check_drafts(f"{', '.join(need)} cannot do without: leave it out of --baselines")
    return [name for name in names if name not in need]


def _assisted(text: str) -> tuple[int, str, float]:
    """Settings of transformers' assisted generation, of which it checks the words itself."""
    try:
        depth, schedule, confidence = text.split("/")
        return numbers("--assisted", depth)[0], schedule, float(confidence)
    except ValueError as error:
        raise typer.BadParameter(
            f"{text!r}; write tokens, schedule and confidence, as in 20/constant/0.4", param_hint="--assisted"
        ) from error
