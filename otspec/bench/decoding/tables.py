"""Tables of the decoding benchmark."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from otspec.bench.decoding.cells import DecodingCell, decoding_cell_of
from otspec.bench.decoding.summary import (
    BASELINES,
    PHASES,
    SPEED,
    DecodingSummary,
    at_shape,
    by_rule,
    chosen,
    details,
    fastest_first,
    label,
    seconds_of,
    shapes,
    texts_of,
    whole_label,
)
from otspec.bench.intervals import FEWEST, NONE, Estimate, mean, paired, quotient
from otspec.bench.records import Record
from otspec.reporting.means import group_by, welch
from otspec.reporting.published import BLOCK_EFFICIENCY, BLOCK_EFFICIENCY_DEPTH
from otspec.reporting.tables import NOTHING, Column, TextTable, table

INTERVALS = (
    f"In brackets 95 % intervals, of {FEWEST} prompts or more: paired bootstrap over prompts, bias-corrected and "
    "accelerated."
)
WHOLE_CALL = (
    "Times are of whole calls, from the prompt to the text, reading of the prompt and preparation included, for every "
    "method alike."
)
MEAN = (
    "mean: the simple average over tasks, as SD2 and Global Resolution print it; all: of all prompts together, where "
    "tasks of many texts count more."
)
AS_VLLM = (
    "Names as vLLM has them: mean_acceptance_length is the tokens put out by each step that had drafts, 1 + accepted "
    "drafts but where a text ends, where tokens per target call are over all steps."
)
ACCEPTANCE = "accepted to depth 1, 2, ..."

FAILED: Sequence[Column[DecodingSummary]] = (
    Column("K", lambda one: str(one.cell.paths or NOTHING), label=True),
    Column("L", lambda one: str(one.cell.depth or NOTHING), label=True),
    Column("temperature", lambda one: f"{one.cell.temperature:g}", label=True),
    Column("rule", lambda one: one.cell.name, label=True),
    Column("why", lambda one: one.message, label=True),
)


def speed_up_table(summaries: Sequence[DecodingSummary], title: str) -> TextTable:
    """Speed-ups of every cell over every baseline, the fastest cell first; summaries of one temperature."""
    shown = fastest_first(summaries)
    baselines = sorted({cell for one in shown for cell in one.speed_ups}, key=lambda cell: BASELINES.index(cell.method))
    columns = [
        Column("rule", whole_label, label=True),
        Column("ms/token", lambda one: f"{one.ms_per_token:.2f}"),
        *(_over(baseline) for baseline in baselines),
    ]
    settings = "; ".join(f"{cell.method}: {details(cell)}" for cell in baselines if cell.depth)
    note = (
        f"Milliseconds a token of the baseline over those of the rule, on the same texts. {INTERVALS} {WHOLE_CALL} "
        f"generate: transformers' own; vanilla: our loop without drafts"
        f"{f'; of several cells of a baseline its fastest ({settings})' if settings else ''}."
    )
    return table(title, columns, shown, note)


def _over(baseline: DecodingCell) -> Column[DecodingSummary]:
    """The speed-up over a baseline."""

    def show(one: DecodingSummary) -> str:
        return one.speed_ups[baseline].shown(".2f") if baseline in one.speed_ups else NOTHING

    return Column(f"over {baseline.method}", show, detail=baseline.method not in ("generate", "vanilla"))


def efficiency_table(summaries: Sequence[DecodingSummary], title: str) -> TextTable:
    """Block efficiency of every rule by K and L, with what the paper prints; summaries of one temperature."""
    settings = shapes(summaries)
    several = len({depth for _, depth in settings}) > 1
    columns = [
        Column[list[DecodingSummary]]("rule", lambda mine: label(mine[0]), label=True),
        *(_at(paths, depth, several) for paths, depth in settings),
    ]
    found = table(title, columns, by_rule(summaries), f"Tokens per target call. {INTERVALS}")
    whole = {one.cell.temperature for one in summaries} == {1.0}
    return _beside_paper(found, settings) if whole else found


def _at(paths: int, depth: int, several: bool) -> Column[list[DecodingSummary]]:
    """Block efficiency of a rule at one shape."""

    def show(mine: Sequence[DecodingSummary]) -> str:
        one = at_shape(mine, paths, depth)
        return NOTHING if one is None else _efficiency(one)

    return Column(f"K = {paths}, L = {depth}" if several else f"K = {paths}", show)


def _beside_paper(found: TextTable, settings: Sequence[tuple[int, int]]) -> TextTable:
    """The table with the paper's figures, where it has some for these shapes."""
    if BLOCK_EFFICIENCY_DEPTH not in {depth for _, depth in settings}:
        return found
    printed = [BLOCK_EFFICIENCY.get(paths) if depth == BLOCK_EFFICIENCY_DEPTH else None for paths, depth in settings]
    row = ("paper: global resolution", *(NOTHING if value is None else f"{value:.2f}" for value in printed))
    note = (
        " The paper is Thomas and Pal, Global Resolution, arXiv:2511.15898, Table 4: Gemma-2 27B/2B, drafts of "
        f"top-k 100, L = {BLOCK_EFFICIENCY_DEPTH}; another pair, so compare how it grows with K."
    )
    return replace(found, rows=[*found.rows, row], note=found.note + note)


def decoding_table(summaries: Sequence[DecodingSummary], title: str, reference: str) -> TextTable:
    """All figures of every cell; summaries of one temperature."""
    over = f"over {reference}"
    columns = [
        *(replace(column, label=True) for column in FAILED[:2]),
        Column("rule", label, label=True),
        Column("block eff.", _efficiency),
        Column(over, lambda one: one.gain.shown("+.3f")),
        Column(ACCEPTANCE, lambda one: accepted(one) or NOTHING, detail=True),
        *(_phase(phase) for phase in PHASES),
        Column("tokens/s", lambda one: f"{one.total.tokens / one.total.wall:.1f}" if one.prompts else NOTHING),
        Column("prompts", _prompts),
    ]
    note = (
        f"Block efficiency: tokens per target call; {over}: the difference to it at the same K and L and on the same "
        f"prompts. {INTERVALS} {', '.join(PHASES).capitalize()}: milliseconds per token. {WHOLE_CALL} Prompts: x how "
        "often."
    )
    return table(title, columns, summaries, note)


def served_table(summaries: Sequence[DecodingSummary], title: str) -> TextTable | None:
    """What servers report of drafts, under their names; summaries of one temperature, None where none had drafts."""
    shown = [one for one in summaries if one.total.num_drafts]
    columns = [
        Column[DecodingSummary]("rule", whole_label, label=True),
        Column[DecodingSummary]("mean_acceptance_length", lambda one: one.length.shown(".3f")),
        Column[DecodingSummary]("acceptance_rate", lambda one: f"{one.total.acceptance_rate:.3f}"),
        Column[DecodingSummary](
            "acceptance_rate_per_position",
            lambda one: " ".join(f"{share:.2f}" for share in one.total.acceptance_rate_per_position),
        ),
        *(_count(name) for name in ("num_drafts", "num_draft_tokens", "num_accepted_tokens")),
    ]
    return table(f"As servers count: {title}", columns, shown, f"{AS_VLLM} {INTERVALS}") if shown else None


def _count(name: str) -> Column[DecodingSummary]:
    return Column(name, lambda one: f"{getattr(one.total, name):,}")


def _phase(phase: str) -> Column[DecodingSummary]:
    return Column(phase, lambda one: f"{one.ms_by_phase[phase]:.2f}" if one.prompts else NOTHING, detail=True)


def task_tables(
    tasks: Mapping[str, Sequence[DecodingSummary]], summaries: Sequence[DecodingSummary], title: str
) -> list[TextTable]:
    """Tokens per target call, speed-up and time by phase of every rule on every task; of one temperature."""
    if not tasks:
        return []
    groups = {**tasks, "all": summaries}
    shown = [one for one in summaries if one.prompts]
    at = {(task, one.cell): one for task, mine in groups.items() for one in mine if one.prompts}

    def by_task(name: str, figure: Callable[[DecodingSummary], Estimate], note: str) -> TextTable:
        """A column for every task, for their mean, and for all prompts together."""

        def of(task: str, one: DecodingSummary) -> Estimate:
            return figure(at[task, one.cell]) if (task, one.cell) in at else NONE

        def column(name: str, tell: Callable[[DecodingSummary], Estimate]) -> Column[DecodingSummary]:
            return Column(name, lambda one: tell(one).shown(".2f"))

        columns = [column(task, partial(of, task)) for task in groups]
        columns.insert(-1, column("mean", lambda one: mean([of(task, one) for task in tasks])))
        rule = Column("rule", whole_label, label=True)
        return table(f"{name} by task: {title}", [rule, *columns], shown, f"{note} {MEAN}")

    spent = [
        Column[tuple[str, DecodingSummary]]("task", lambda pair: pair[0], label=True),
        Column[tuple[str, DecodingSummary]]("rule", lambda pair: whole_label(pair[1]), label=True),
        *(_phase_of_pair(phase) for phase in PHASES),
        Column[tuple[str, DecodingSummary]]("prompts", lambda pair: str(pair[1].prompts)),
    ]
    pairs = [(task, one) for task, mine in groups.items() for one in mine if one.prompts]
    accepted_note = f"What Spec-Bench calls mean accepted tokens. {INTERVALS}"
    return [
        by_task("Tokens per target call", lambda one: one.efficiency, accepted_note),
        by_task("mean_acceptance_length", lambda one: one.length, f"{AS_VLLM} {INTERVALS}"),
        by_task("Speed-up over vanilla", _over_vanilla, f"On the same texts. {INTERVALS} {WHOLE_CALL}"),
        table(f"Where the time goes by task: {title}", spent, pairs, f"Milliseconds per token. {WHOLE_CALL}"),
    ]


def _phase_of_pair(phase: str) -> Column[tuple[str, DecodingSummary]]:
    return Column(phase, lambda pair: f"{pair[1].ms_by_phase[phase]:.2f}")


def _over_vanilla(one: DecodingSummary) -> Estimate:
    return next((found for cell, found in one.speed_ups.items() if cell.method == "vanilla"), NONE)


def choice_table(records: Sequence[Record]) -> TextTable | None:
    """The trials from which settings were chosen, or None if there were none."""
    trials = group_by((record for record in records if record["trial"]), decoding_cell_of)
    if not trials:
        return None

    def is_chosen(cell: DecodingCell) -> str:
        unset = replace(cell, depth=0, schedule=None, confidence=None)
        return "chosen" if chosen(records, unset) == cell else ""

    columns = [
        Column[DecodingCell]("temperature", lambda cell: f"{cell.temperature:g}", label=True),
        Column[DecodingCell]("method", lambda cell: cell.method, label=True),
        Column[DecodingCell]("settings", details, label=True),
        Column[DecodingCell]("ms/token", lambda cell: _ms_per_token(trials[cell])),
        Column[DecodingCell]("prompts", lambda cell: str(len(trials[cell]))),
        Column[DecodingCell]("", is_chosen),
    ]
    return table(
        "Settings chosen by a short measurement",
        columns,
        sorted(trials, key=lambda cell: -cell.temperature),
        "The last prompts, once each; what was chosen is then measured anew, on the prompts of all others.",
    )


def _ms_per_token(records: Sequence[Record]) -> str:
    tokens = sum(record["tokens"] for record in records)
    return f"{1e3 * sum(map(seconds_of, records)) / tokens:.2f}" if tokens else NOTHING


def failed_table(summaries: Sequence[DecodingSummary]) -> TextTable | None:
    """Why solvers stopped, or None if none did."""
    failed = [one for one in summaries if one.message]
    return table("Solvers that failed", FAILED, failed, "Nothing after the failure was tried.") if failed else None


def accepted(one: DecodingSummary) -> str:
    """Shares of the steps that accept one draft or more, two or more, and so on; nothing without drafts."""
    return " ".join(f"{share:.2f}" for share in one.total.acceptance)


def _efficiency(one: DecodingSummary) -> str:
    return one.efficiency.shown(".3f") if one.prompts else "failed"


def _prompts(one: DecodingSummary) -> str:
    return str(one.prompts) + (f" x {one.texts / one.prompts:.3g}" if one.texts > one.prompts else "")


FULL = "as it is"
"""How the draft model is called where no other drafts."""
UNTESTED = (NOTHING, NOTHING)
"""What stands for t and p of the draft model itself."""


def drafters_table(summaries: Sequence[DecodingSummary], records: Sequence[Record], title: str) -> TextTable | None:
    """A row for every drafter with every rule, summaries of one temperature; None where there is one drafter."""
    shown = compared(summaries)
    held = group_by(records, decoding_cell_of)
    taus = {cell: efficiencies(mine) for cell, mine in held.items()}

    tests = {one.cell: welch(taus[one.cell], taus.get(_as_it_is(one.cell), [])) for one in shown if one.cell.drafter}

    def over_full(one: DecodingSummary) -> str:
        mine, plain = (texts_of(held.get(cell, ())) for cell in (one.cell, _as_it_is(one.cell)))
        return paired(quotient, SPEED, mine, plain).shown(".2f") if one.cell.drafter else NOTHING

    columns = [
        Column[DecodingSummary]("drafter", lambda one: one.cell.drafter or FULL, label=True),
        Column[DecodingSummary]("rule", lambda one: _rule(one.cell), label=True),
        Column[DecodingSummary]("tau", lambda one: f"{np.mean(taus[one.cell]):.3f}"),
        Column[DecodingSummary]("sd", lambda one: _deviation(taus[one.cell])),
        Column[DecodingSummary]("t", lambda one: tests.get(one.cell, UNTESTED)[0]),
        Column[DecodingSummary]("p", lambda one: tests.get(one.cell, UNTESTED)[1]),
        Column[DecodingSummary]("over full", over_full),
        Column[DecodingSummary]("over generate", _over_generate),
        Column[DecodingSummary](ACCEPTANCE, accepted),
    ]
    note = (
        "tau: block efficiency, the mean over the repeats, sd: its standard deviation over them; t, p: Welch's test "
        "against the draft model as it is. Speed-ups are paired by text, in brackets 95 % intervals."
    )
    return table(title, columns, shown, note) if shown else None


def compared(summaries: Sequence[DecodingSummary]) -> list[DecodingSummary]:
    """Those whose method is measured with several drafters."""
    settings = {_as_it_is(one.cell) for one in summaries if one.cell.drafter}
    return [one for one in summaries if _as_it_is(one.cell) in settings and one.texts]


def efficiencies(records: Sequence[Record]) -> list[float]:
    """Block efficiency of a cell in each repeat, of all its records."""
    repeats = group_by(records, lambda record: int(record["repeat"]))
    sums = [
        (sum(text["tokens"] for text in repeats[at]), sum(text["sequence_steps"] for text in repeats[at]))
        for at in sorted(repeats)
    ]
    return [tokens / steps for tokens, steps in sums if steps]


def drafter_of(one: DecodingSummary) -> str:
    """The drafter of a cell, a model by the name of its folder."""
    return Path(one.cell.drafter).name or FULL


def _as_it_is(cell: DecodingCell) -> DecodingCell:
    return replace(cell, drafter="")


def _rule(cell: DecodingCell) -> str:
    return f"{cell.name}, K = {cell.paths}, L = {cell.depth}"


def _deviation(taus: Sequence[float]) -> str:
    return f"{np.std(taus, ddof=1):.3f}" if len(taus) > 1 else NOTHING


def _over_generate(one: DecodingSummary) -> str:
    """Of several cells of transformers' own decoding, the last."""
    found = [estimate for cell, estimate in one.speed_ups.items() if cell.method == "generate"]
    return found[-1].shown(".2f") if found else NOTHING
