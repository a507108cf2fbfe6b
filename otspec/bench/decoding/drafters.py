"""Drafters side by side, as in Tables 1, 3 and 5 of [berdozsteering]."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from otspec.bench.decoding.cells import DecodingCell, decoding_cell_of
from otspec.bench.decoding.summary import SPEED, DecodingSummary, texts_of
from otspec.bench.decoding.tables import ACCEPTANCE, accepted
from otspec.bench.intervals import quotient
from otspec.bench.ratios import paired
from otspec.bench.records import Record
from otspec.reporting.columns import NOTHING, Column, table
from otspec.reporting.means import grouped, welch
from otspec.reporting.tables import TextTable

FULL = "as it is"
"""How the draft model is called where no other drafts."""
UNTESTED = (NOTHING, NOTHING)
"""What stands for t and p of the draft model itself."""


def drafters_table(summaries: Sequence[DecodingSummary], records: Sequence[Record], title: str) -> TextTable | None:
    """A row for every drafter with every rule, summaries of one temperature; None where there is one drafter."""
    shown = compared(summaries)
    held = grouped(records, decoding_cell_of)
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
    repeats = grouped(records, lambda record: int(record["repeat"]))
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
