"""What the decoding benchmark comes to: figures per cell, and comparisons with others on the same texts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add

from otspec.bench.decoding_cells import OURS, DecodingCell, decoding_cell_of
from otspec.bench.intervals import NONE, Estimate, by_prompt, difference, quotient, ratio
from otspec.bench.records import Record
from otspec.decode.base.metrics import Metrics
from otspec.decode.methods.catalogue import METHODS

REFERENCE = "interval"
"""The rule that others are compared with at the same K and L: optimal token by token."""
BASELINES = ("generate", "vanilla", "assisted", "assisted-lookup", "prompt-lookup", "suffix", "lookahead", "block")
"""Methods that a speed-up is told over, in this order."""
METRICS = tuple(Metrics().record())

Texts = Mapping[tuple[int, int], Metrics]
"""What a cell decoded, by prompt and repeat."""


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
    speed_ups: Mapping[DecodingCell, Estimate]
    """By baseline: its seconds a token over those of the cell, on the same texts."""
    message: str
    """Why it stopped, if its solver failed."""

    @property
    def ms_per_token(self) -> dict[str, float]:
        """Milliseconds a token by phase."""
        return {phase: 1e3 * spent / max(self.total.tokens, 1) for phase, spent in self.total.seconds.items()}


def summarise(records: Sequence[Record], reference: str = REFERENCE) -> list[DecodingSummary]:
    """A summary for every cell with a record that is no trial: high temperatures first, then by K, L and name."""
    held: dict[DecodingCell, list[Record]] = {}
    for record in records:
        if not record["trial"]:
            held.setdefault(decoding_cell_of(record), []).append(record)
    measured = {cell: _texts(mine) for cell, mine in held.items()}
    theirs = {temperature: _baselines(measured, temperature) for temperature in {cell.temperature for cell in held}}
    summaries = []
    for cell, mine in held.items():
        texts = measured[cell]
        other = measured.get(replace(cell, method=OURS, rule=reference), {}) if cell.paths > 1 else {}
        summaries.append(
            DecodingSummary(
                cell=cell,
                prompts=len({prompt for prompt, _ in texts}),
                texts=len(texts),
                lossless=all(record["lossless"] for record in mine),
                total=reduce(add, texts.values(), Metrics()),
                efficiency=_efficiency(texts),
                gain=_gain(texts, other) if cell.rule != reference else NONE,
                speed_ups={
                    baseline: _speed_up(texts, measured[baseline])
                    for baseline in theirs[cell.temperature]
                    if baseline.method != cell.method
                },
                message=next((record["message"] for record in mine if record["message"]), ""),
            )
        )
    return sorted(summaries, key=_place)


def by_task(records: Sequence[Record]) -> dict[str, list[DecodingSummary]]:
    """Summaries of the prompts of each task, by its name; none where prompts are of no task."""
    tasks = sorted({record["task"] for record in records if record.get("task")})
    return {task: summarise([record for record in records if record.get("task") == task]) for task in tasks}


def _place(one: DecodingSummary) -> tuple[object, ...]:
    """Where a summary stands, whatever the order in which its cell was measured."""
    cell = one.cell
    return -cell.temperature, cell.paths, cell.depth, list(METHODS).index(cell.method), cell.name, cell.notes


def _texts(records: Iterable[Record]) -> Texts:
    return {
        (record["prompt"], record["repeat"]): Metrics(**{name: record[name] for name in METRICS})
        for record in records
        if record["tokens"]
    }


def _baselines(measured: Mapping[DecodingCell, Texts], temperature: float) -> list[DecodingCell]:
    """What speed-ups are told over: of several cells of a method, the one of the least time a token."""
    found = []
    for name in BASELINES:
        mine = [cell for cell in measured if (cell.method, cell.temperature) == (name, temperature) and measured[cell]]
        if mine:
            found.append(min(mine, key=lambda cell: _seconds_per_token(measured[cell])))
    return found


def _seconds_per_token(texts: Texts) -> float:
    return sum(one.wall for one in texts.values()) / sum(one.tokens for one in texts.values())


def _efficiency(texts: Texts) -> Estimate:
    rows = [(prompt, (one.tokens, one.sequence_steps)) for (prompt, _), one in texts.items()]
    return ratio(*by_prompt(rows)) if rows else NONE


def _gain(texts: Texts, other: Texts) -> Estimate:
    pairs = _pairs(texts, other)
    rows = [(at, (one.tokens, one.sequence_steps, two.tokens, two.sequence_steps)) for at, one, two in pairs]
    return difference(*by_prompt(rows)) if rows else NONE


def _speed_up(texts: Texts, baseline: Texts) -> Estimate:
    rows = [(at, (one.tokens, one.wall, two.tokens, two.wall)) for at, one, two in _pairs(texts, baseline)]
    return quotient(*by_prompt(rows)) if rows else NONE


def _pairs(texts: Texts, others: Texts) -> list[tuple[int, Metrics, Metrics]]:
    """What two cells did with the same prompt at the same repeat, by prompt."""
    return [(at[0], texts[at], others[at]) for at in sorted(texts.keys() & others.keys())]
