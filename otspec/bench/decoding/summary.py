"""What the decoding benchmark comes to: figures per cell, and comparisons with others on the same texts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from functools import reduce
from operator import add

import polars as pl
from polars import col

from otspec.bench.decoding.cells import FIELDS, OURS, DecodingCell, decoding_cell_of
from otspec.bench.frame import by_cell, frame_of
from otspec.bench.intervals import Estimate, Ratio, difference, estimate, paired, quotient
from otspec.bench.records import Record
from otspec.bench.schema import SCHEMAS
from otspec.decode.base.metrics import Metrics
from otspec.decode.methods.catalogue import METHODS
from otspec.reporting.means import group_by

REFERENCE = "interval"
"""The rule that others are compared with at the same K and L: optimal token by token."""
BASELINES = ("generate", "vanilla", "assisted", "assisted-lookup", "prompt-lookup", "lookahead", "block")
"""Methods that speed-ups are relative to, in this order."""
METRICS = tuple(Metrics().record())
PHASES = tuple(Metrics().seconds)

Setting = tuple[float, int]
"""Temperature and batch."""


TIME = Ratio("ms/token", 1e3 * col("spent"), col("tokens"))
SPEED = Ratio("tokens/s", col("tokens"), col("spent"))
LENGTH = Ratio("mean_acceptance_length", col("committed"), col("drafts"))
EFFICIENCY = Ratio("block efficiency", col("tokens"), col("sequence_steps"))


def frame(records: Sequence[Record]) -> pl.DataFrame:
    """A row for every text, with its whole time, ``spent``, and its steps that had drafts, ``drafts``."""
    defaults = {field.name: field.default for field in fields(DecodingCell) if field.default not in (MISSING, None)}
    return frame_of(records, SCHEMAS["decoding"]).with_columns(
        *(col(name).fill_null(value) for name, value in {**defaults, "together": 1}.items()),  # older records lack them
        place="repeat",
        spent=pl.sum_horizontal(col("seconds").struct.field(phase) for phase in PHASES),
        drafts=col("offered").list.first().fill_null(0),
    )


def seconds_of(record: Record) -> float:
    """Wall-clock of a measurement, from the call of the method to its answer."""
    return float(sum(record["seconds"].values()))


@dataclass(frozen=True)
class DecodingSummary:
    """Figures of one cell over its prompts, with 95 % intervals (`otspec.bench.intervals`)."""

    cell: DecodingCell
    prompts: int
    """How many it decoded, whole or in part."""
    texts: int
    """The same, counting repeats."""
    lossless: bool
    total: Metrics
    efficiency: Estimate
    """Block efficiency."""
    gain: Estimate
    """Block efficiency minus that of the reference at the same K, L and drafts, on the same texts."""
    length: Estimate
    """1 + accepted drafts for each step that had drafts; `NONE` where no step had any."""
    speed_ups: Mapping[DecodingCell, Estimate]
    """By baseline: its seconds a token over those of the cell, on the same texts."""
    message: str
    """Why it stopped, if its solver failed."""

    @property
    def ms_by_phase(self) -> dict[str, float]:
        """Milliseconds a token by phase."""
        return {phase: 1e3 * spent / max(self.total.tokens, 1) for phase, spent in self.total.seconds.items()}

    @property
    def ms_per_token(self) -> float:
        """Milliseconds a token in all."""
        return sum(self.ms_by_phase.values())


def summarise(records: Sequence[Record], reference: str = REFERENCE) -> list[DecodingSummary]:
    """A summary for every cell with a record that is no trial: high temperatures, small batches first, then by name."""
    rows = by_cell(frame(records).filter(~col("trial")), FIELDS)
    held = {DecodingCell(*key): mine for key, mine in rows.items()}
    texts = {cell: mine.filter(col("tokens") > 0) for cell, mine in held.items()}
    baselines = {at: _baselines(texts, at) for at in {setting_of(cell) for cell in held}}
    found = [_summary(cell, mine, texts, reference, baselines[setting_of(cell)]) for cell, mine in held.items()]
    return sorted(found, key=_place)


def chosen(records: Sequence[Record], cell: DecodingCell) -> DecodingCell:
    """An open cell with those of its settings that gave a token in the least time in the trials."""
    trials = group_by((record for record in records if record["trial"]), decoding_cell_of)

    def seconds_per_token(candidate: DecodingCell) -> float:
        mine = trials.get(candidate, [])
        tokens = sum(record["tokens"] for record in mine)
        return sum(map(seconds_of, mine)) / tokens if tokens else math.inf

    return min(cell.candidates, key=seconds_per_token)


def by_task(records: Sequence[Record]) -> dict[str, list[DecodingSummary]]:
    """Summaries of the prompts of each task, by its name; none where prompts are of no task."""
    held = group_by((record for record in records if record.get("task")), lambda record: str(record["task"]))
    return {task: summarise(held[task]) for task in sorted(held)}


def texts_of(records: Sequence[Record]) -> pl.DataFrame:
    """Rows of the records with a token."""
    return frame(records).filter(col("tokens") > 0)


def _summary(
    cell: DecodingCell,
    rows: pl.DataFrame,
    texts: Mapping[DecodingCell, pl.DataFrame],
    reference: str,
    baselines: Sequence[DecodingCell],
) -> DecodingSummary:
    mine = texts[cell]
    theirs = (
        texts.get(replace(cell, method=OURS, rule=reference)) if cell.paths > 1 and cell.rule != reference else None
    )
    failures = rows["message"].filter(rows["message"] != "")
    return DecodingSummary(
        cell=cell,
        prompts=int(mine.unique("prompt")["together"].sum()),
        texts=int(mine["together"].sum()),
        lossless=bool(rows["lossless"].all()),
        total=reduce(add, (Metrics(**one) for one in mine.select(METRICS).to_dicts()), Metrics()),
        efficiency=estimate(EFFICIENCY, mine),
        gain=paired(difference, EFFICIENCY, mine, theirs),
        length=estimate(LENGTH, mine.filter(col("drafts") > 0)),
        speed_ups={
            over: paired(quotient, SPEED, mine, texts[over]) for over in baselines if over.method != cell.method
        },
        message=failures[0] if failures.len() else "",
    )


def _place(one: DecodingSummary) -> tuple[object, ...]:
    """Where a summary stands, whatever the order in which its cell was measured."""
    cell = one.cell
    return (
        -cell.temperature,
        cell.batch,
        cell.paths,
        cell.depth,
        list(METHODS).index(cell.method),
        cell.name,
        cell.notes,
    )


def setting_of(cell: DecodingCell) -> Setting:
    """What is compared is of one: temperature and batch."""
    return cell.temperature, cell.batch


def _baselines(texts: Mapping[DecodingCell, pl.DataFrame], setting: Setting) -> list[DecodingCell]:
    """What speed-ups are relative to: of several cells of a method, the one of the least time a token."""
    seconds = {
        cell: float(mine["spent"].sum()) / float(mine["tokens"].sum())
        for cell, mine in texts.items()
        if setting_of(cell) == setting and mine.height
    }
    of_methods = [[cell for cell in seconds if cell.method == name] for name in BASELINES]
    return [min(mine, key=lambda cell: seconds[cell]) for mine in of_methods if mine]


def fastest_first(summaries: Sequence[DecodingSummary]) -> list[DecodingSummary]:
    """Those that decoded something, by their time a token."""
    return sorted((one for one in summaries if one.prompts), key=lambda one: one.ms_per_token)


def shapes(summaries: Sequence[DecodingSummary]) -> list[tuple[int, int]]:
    """K and L of the rules of several paths, or of one where none has more."""
    most = max((one.cell.paths for one in summaries), default=0)
    return sorted({(one.cell.paths, one.cell.depth) for one in summaries if one.cell.paths >= min(most, 2) > 0})


def by_rule(summaries: Sequence[DecodingSummary]) -> list[list[DecodingSummary]]:
    """Summaries that differ in K and L alone, several paths apart from one and from none."""
    found: dict[DecodingCell, list[DecodingSummary]] = {}
    for one in summaries:
        found.setdefault(replace(one.cell, paths=min(one.cell.paths, 2), depth=0), []).append(one)
    return list(found.values())


def at_shape(mine: Sequence[DecodingSummary], paths: int, depth: int) -> DecodingSummary | None:
    """Of the cells of one rule, that of K paths of L tokens; one path, or none, stands for every K."""
    exact = [one for one in mine if (one.cell.paths, one.cell.depth) == (paths, depth)]
    if exact:
        return exact[-1]
    few = [one for one in mine if one.cell.paths < 2]
    return few[0] if len(few) == 1 else next((one for one in few if one.cell.depth == depth), None)


ONE_PATH = "one path"
"""The note that repeats the number of paths."""


def label(one: DecodingSummary) -> str:
    """What a cell is called beside its K and L."""
    return _noted(one, one.cell.name, one.cell.notes)


def whole_label(one: DecodingSummary) -> str:
    """What a cell is called where nothing else shows its K and L."""
    return _noted(one, ", ".join([one.cell.name, *shape(one.cell)]), beside_shape(one.cell))


def shape(cell: DecodingCell) -> list[str]:
    """K and L, as far as there are any."""
    return [f"{letter} = {count}" for letter, count in (("K", cell.paths), ("L", cell.depth)) if count]


def details(cell: DecodingCell) -> str:
    """L, and what else is set."""
    return ", ".join([f"{cell.depth} tokens", *beside_shape(cell)])


def beside_shape(cell: DecodingCell) -> list[str]:
    """Notes that do not follow from its K."""
    return [note for note in cell.notes if note != ONE_PATH]


def _noted(one: DecodingSummary, name: str, notes: Sequence[str]) -> str:
    marked = [*notes, *([] if one.lossless else ["lossy"])]
    return f"{name} ({', '.join(marked)})" if marked else name
