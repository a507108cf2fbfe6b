"""Tables of the decoding benchmark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from otspec.bench.decoding import chosen
from otspec.bench.decoding_cells import DecodingCell, decoding_cell_of
from otspec.bench.decoding_summary import BASELINES, DecodingSummary
from otspec.bench.intervals import FEWEST
from otspec.bench.records import Record
from otspec.decode.base.metrics import Metrics
from otspec.reporting.published import BLOCK_EFFICIENCY, BLOCK_EFFICIENCY_DEPTH
from otspec.reporting.tables import TextTable

INTERVALS = (
    f"In brackets 95 % intervals, of {FEWEST} prompts or more: paired bootstrap over prompts, bias-corrected and "
    "accelerated."
)
WHOLE_CALL = (
    "Times are of whole calls, from the prompt to the text, reading of the prompt and preparation included, for every "
    "method alike."
)


def speed_up_table(summaries: Sequence[DecodingSummary], title: str) -> TextTable:
    """Speed-ups of every cell over every baseline, the fastest cell first; summaries of one temperature."""
    shown = sorted((one for one in summaries if one.prompts), key=lambda one: sum(one.ms_per_token.values()))
    found = {cell for one in shown for cell in one.speed_ups}
    baselines = sorted(found, key=lambda cell: BASELINES.index(cell.method))
    rows: list[tuple[str, ...]] = [
        (
            whole_label(one),
            f"{sum(one.ms_per_token.values()):.2f}",
            *(one.speed_ups[cell].shown(".2f") if cell in one.speed_ups else "-" for cell in baselines),
        )
        for one in shown
    ]
    told = "; ".join(f"{cell.method}: {_details(cell)}" for cell in baselines if cell.depth)
    note = (
        f"Milliseconds a token of the baseline over those of the rule, on the same texts. {INTERVALS} {WHOLE_CALL} "
        f"generate: transformers' own; vanilla: our loop without drafts"
        f"{f'; of several cells of a baseline its fastest ({told})' if told else ''}."
    )
    names = [f"over {cell.method}" for cell in baselines]
    details = [name for name in names if name not in ("over generate", "over vanilla")]
    return TextTable(title, ("rule", "ms/token", *names), rows, note, labels=1, details=frozenset(details))


def efficiency_table(summaries: Sequence[DecodingSummary], title: str) -> TextTable:
    """Block efficiency of every rule by K and L, with what the paper prints; summaries of one temperature."""
    settings = shapes(summaries)
    depths = {depth for _, depth in settings}
    rows: list[tuple[str, ...]] = []
    for mine in by_rule(summaries):
        at = {(one.cell.paths, one.cell.depth): one for one in mine}
        row = [at.get(setting) or without_paths(mine, setting[1]) for setting in settings]
        rows.append((label(mine[0]), *("-" if one is None else _efficiency(one) for one in row)))
    note = f"Tokens per target call. {INTERVALS}"
    temperatures = {one.cell.temperature for one in summaries}
    if temperatures == {1.0} and BLOCK_EFFICIENCY_DEPTH in depths:
        published = [
            BLOCK_EFFICIENCY.get(count) if depth == BLOCK_EFFICIENCY_DEPTH else None for count, depth in settings
        ]
        rows.append(("paper: global resolution", *("-" if value is None else f"{value:.2f}" for value in published)))
        note += (
            " The paper is Thomas and Pal, Global Resolution, arXiv:2511.15898, Table 4: Gemma-2 27B/2B, drafts of "
            f"top-k 100, L = {BLOCK_EFFICIENCY_DEPTH}; another pair, so compare how it grows with K."
        )
    names = (f"K = {count}, L = {depth}" if len(depths) > 1 else f"K = {count}" for count, depth in settings)
    return TextTable(title, ("rule", *names), rows, note, labels=1)


def decoding_table(summaries: Sequence[DecodingSummary], title: str, reference: str) -> TextTable:
    """All figures of every cell; summaries of one temperature."""
    phases = tuple(Metrics().seconds)
    over, acceptance = f"over {reference}", "accepted to depth 1, 2, ..."
    rows = [
        (
            *_shape(one.cell),
            label(one),
            _efficiency(one),
            one.gain.shown("+.3f"),
            " ".join(f"{share:.2f}" for share in one.total.acceptance) or "-",
            *(f"{ms:.2f}" if one.prompts else "-" for ms in one.ms_per_token.values()),
            f"{one.total.tokens / one.total.wall:.1f}" if one.prompts else "-",
            str(one.prompts) + (f" x {one.texts / one.prompts:.3g}" if one.texts > one.prompts else ""),
        )
        for one in summaries
    ]
    note = (
        f"Block efficiency: tokens per target call; {over}: the difference to it at the same K and L and on the same "
        f"prompts. {INTERVALS} {', '.join(phases).capitalize()}: milliseconds per token. {WHOLE_CALL} Prompts: x how "
        "often."
    )
    header = ("K", "L", "rule", "block eff.", over, acceptance, *phases, "tokens/s", "prompts")
    return TextTable(title, header, rows, note, labels=3, details=frozenset((acceptance, *phases)))


def task_tables(
    tasks: Mapping[str, Sequence[DecodingSummary]], summaries: Sequence[DecodingSummary], title: str
) -> list[TextTable]:
    """Tokens per target call, speed-up and time by phase of every rule on every task; of one temperature."""
    if not tasks:
        return []
    columns = {**tasks, "all": summaries}
    at = {(task, one.cell): one for task, mine in columns.items() for one in mine if one.prompts}
    shown = [one for one in summaries if one.prompts]
    tokens, speed_ups = [
        TextTable(
            f"{name} by task: {title}",
            ("rule", *columns),
            [(whole_label(one), *(tell(at.get((task, one.cell))) for task in columns)) for one in shown],
            note,
            labels=1,
        )
        for name, tell, note in (
            ("Tokens per target call", _told_efficiency, f"What Spec-Bench calls mean accepted tokens. {INTERVALS}"),
            ("Speed-up over vanilla", _told_speed_up, f"On the same texts. {INTERVALS} {WHOLE_CALL}"),
        )
    ]
    phases = tuple(Metrics().seconds)
    spent: list[tuple[str, ...]] = [
        (task, whole_label(one), *(f"{ms:.2f}" for ms in one.ms_per_token.values()), str(one.prompts))
        for task, mine in columns.items()
        for one in mine
        if one.prompts
    ]
    note = f"Milliseconds per token. {WHOLE_CALL}"
    times = TextTable(f"Where the time goes by task: {title}", ("task", "rule", *phases, "prompts"), spent, note)
    return [tokens, speed_ups, times]


def _told_efficiency(one: DecodingSummary | None) -> str:
    return "-" if one is None else one.efficiency.shown(".2f")


def _told_speed_up(one: DecodingSummary | None) -> str:
    over = {} if one is None else one.speed_ups
    return next((found.shown(".2f") for cell, found in over.items() if cell.method == "vanilla"), "-")


def choice_table(records: Sequence[Record]) -> TextTable | None:
    """The trials from which settings were chosen, or None if there were none."""
    trials: dict[DecodingCell, list[Record]] = {}
    for record in records:
        if record["trial"]:
            trials.setdefault(decoding_cell_of(record), []).append(record)
    if not trials:
        return None
    rows: list[tuple[str, ...]] = []
    for cell, mine in sorted(trials.items(), key=lambda item: -item[0].temperature):
        tokens = sum(record["tokens"] for record in mine)
        ms = f"{1e3 * sum(sum(one['seconds'].values()) for one in mine) / tokens:.2f}" if tokens else "-"
        unset = replace(cell, depth=0, schedule=None, confidence=None)
        rows.append(
            (
                f"{cell.temperature:g}",
                cell.method,
                _details(cell),
                ms,
                str(len(mine)),
                "chosen" if chosen(records, unset) == cell else "",
            )
        )
    return TextTable(
        "Settings chosen by a short measurement",
        ("temperature", "method", "settings", "ms/token", "prompts", ""),
        rows,
        "The last prompts, once each; what was chosen is then measured anew, on the prompts of all others.",
        labels=3,
    )


def failed_table(summaries: Sequence[DecodingSummary]) -> TextTable | None:
    """Why solvers stopped, or None if none did."""
    rows: list[tuple[str, ...]] = [
        (*_shape(one.cell), f"{one.cell.temperature:g}", one.cell.name, one.message) for one in summaries if one.message
    ]
    if not rows:
        return None
    header = ("K", "L", "temperature", "rule", "why")
    return TextTable("Solvers that failed", header, rows, "Nothing after the failure was tried.", labels=5)


def shapes(summaries: Sequence[DecodingSummary]) -> list[tuple[int, int]]:
    """K and L of the rules of several paths, or of one where none has more."""
    most = max((one.cell.paths for one in summaries), default=0)
    return sorted({(one.cell.paths, one.cell.depth) for one in summaries if one.cell.paths >= min(most, 2) > 0})


def by_rule(summaries: Sequence[DecodingSummary]) -> list[list[DecodingSummary]]:
    """Summaries that differ in K and L alone, several paths told from one and from none."""
    found: dict[DecodingCell, list[DecodingSummary]] = {}
    for one in summaries:
        found.setdefault(replace(one.cell, paths=min(one.cell.paths, 2), depth=0), []).append(one)
    return list(found.values())


def label(one: DecodingSummary) -> str:
    """What a cell is called beside its K and L."""
    return _noted(one, one.cell.name, one.cell.notes)


def whole_label(one: DecodingSummary) -> str:
    """What a cell is called where nothing else tells its K and L."""
    shape = [f"{letter} = {count}" for letter, count in (("K", one.cell.paths), ("L", one.cell.depth)) if count]
    return _noted(one, ", ".join([one.cell.name, *shape]), _beside_shape(one.cell))


def _noted(one: DecodingSummary, name: str, notes: Sequence[str]) -> str:
    told = [*notes, *([] if one.lossless else ["lossy"])]
    return f"{name} ({', '.join(told)})" if told else name


def without_paths(mine: Sequence[DecodingSummary], depth: int) -> DecodingSummary | None:
    """Of a rule that has one path or none: what stands in all columns of an L."""
    found = [one for one in mine if one.cell.paths < 2]
    if len(found) == 1:
        return found[0]
    return next((one for one in found if one.cell.depth == depth), None)


def _details(cell: DecodingCell) -> str:
    """L, and what else is set."""
    return ", ".join([f"{cell.depth} tokens", *_beside_shape(cell)])


def _beside_shape(cell: DecodingCell) -> list[str]:
    """Notes that its K does not tell."""
    return [note for note in cell.notes if note != "one path"]


def _shape(cell: DecodingCell) -> tuple[str, str]:
    return str(cell.paths or "-"), str(cell.depth or "-")


def _efficiency(one: DecodingSummary) -> str:
    return one.efficiency.shown(".3f") if one.prompts else "failed"
