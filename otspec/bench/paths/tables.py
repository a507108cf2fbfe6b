"""Tables of the benchmark of recorded trees: of one recording, and of all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from otspec.bench.intervals import FEWEST
from otspec.bench.paths.summary import Row
from otspec.bench.records import Record
from otspec.bench.report import Run
from otspec.reporting.means import group_by
from otspec.reporting.tables import NOTHING, Column, TextTable, figure, table

EXACT = (
    "Mean number of drafted tokens that are accepted: exact given each tree, over the random numbers of the rule, and "
    "a mean over the same trees for all rules. What errs is the choice of the trees: after it the standard error "
    f"across prompts, in brackets 95 % intervals, of {FEWEST} prompts or more, by the paired bootstrap over prompts, "
    "bias-corrected and accelerated."
)

FAILED: Sequence[Column[Row]] = (
    Column("data", lambda one: str(one["data"]), label=True),
    Column("rule", lambda one: str(one["label"]), label=True),
    Column("trees before", lambda one: str(one["trees"]), label=True),
    Column("why", lambda one: str(one["message"]), label=True),
)


def accepted_table(rows: Sequence[Row], title: str, reference: str) -> TextTable:
    """What every rule accepts of the trees of one file."""
    over = f"over {reference}"
    columns: Sequence[Column[Row]] = (
        Column("rule", lambda one: str(one["label"]), label=True),
        Column("accepted", lambda one: f"{figure(one['accepted'].value, '.3f')}{_error(one)}"),
        Column("95 % interval", lambda one: one["accepted"].shown(".3f").partition(" ")[2] or NOTHING, detail=True),
        Column(over, lambda one: one["gain"].shown("+.3f")),
        Column("ms", lambda one: figure(one["median_ms"], ".3g"), detail=True),
        Column("trees", lambda one: str(one["trees"])),
    )
    note = (
        f"{EXACT} A call of the target gives one token more. {over.capitalize()}: the difference on "
        "the trees that both have. ms: median time of one verification. A lossy rule changes the law of the text."
    )
    return table(title, columns, rows, note)


def reach_table(rows: Sequence[Row], title: str) -> TextTable | None:
    """How deep every rule gets on the trees of one file."""
    shown = [one for one in rows if one["reach"]]
    if not shown:
        return None
    columns = [
        Column("rule", lambda one: str(one["label"]), label=True),
        *(_reach(depth) for depth in range(1, shown[0]["depth"] + 1)),
    ]
    return table(title, columns, shown, "P(so many drafted tokens or more are accepted), mean over trees.")


def failed_table(rows: Sequence[Row]) -> TextTable | None:
    """Rules that got no more trees since their solver failed, or None."""
    failed = [one for one in rows if one["message"]]
    return table("Stopped", FAILED, failed) if failed else None


def _reach(depth: int) -> Column[Row]:
    return Column(f">= {depth}", lambda one: f"{one['reach'][depth - 1]:.3f}")


def _error(one: Row) -> str:
    """Behind a mean, if there is one."""
    return f" ± {one['error']:.3f}" if one["trees"] else ""


Overview = Mapping[str, Mapping[str, Row]]
"""The summaries of a run, by recording and by what a rule is called."""


def overview_of(summaries: Sequence[Row]) -> Overview:
    """All summaries, by recording and by rule."""
    by_recording = group_by(summaries, lambda one: str(one["data"]))
    return {recording: {one["label"]: one for one in mine} for recording, mine in by_recording.items()}


def rules_of(overview: Overview) -> list[str]:
    """What rules are called, the rule first that accepts most on average over recordings."""
    accepted: dict[str, list[float]] = {}
    for mine in overview.values():
        for rule, one in mine.items():
            accepted.setdefault(rule, []).append(float(np.nan_to_num(one["accepted"].value)))
    return sorted(accepted, key=lambda rule: -float(np.mean(accepted[rule])))


def verifiers_table(overview: Overview) -> TextTable:
    """Accepted tokens of every rule on every recording."""
    note = (
        "Drafted tokens that are accepted in a call of the target, which gives one token more; in brackets 95 % "
        "intervals over the prompts of a recording. A lossy rule changes the law of the text."
    )
    columns = _by_recording(overview, lambda one: one["accepted"].shown(".3f"))
    return table("Verifiers: accepted tokens a call", columns, rules_of(overview), note)


def times_table(overview: Overview, reference: str) -> TextTable:
    """Time of a verification by every rule on every recording, over the reference's."""
    note = (
        f"Time of one verification over that of {reference}, whose median is given, on the same trees, on one core, of "
        "laws as the recording has them; in brackets 95 % intervals over prompts. Recordings may be measured on "
        "different machines: compare ratios, not milliseconds."
    )
    columns = _by_recording(
        overview, lambda one: f"{one['median_ms']:.3g} ms" if one["rule"] == reference else one["time"].shown(".2f")
    )
    return table(f"Verifiers: time over {reference}", columns, rules_of(overview), note)


def recordings_table(run: Run) -> TextTable:
    """Where every recording is from, and where it was measured."""
    measured = group_by(run.records, lambda record: str(record["data"]))
    columns: Sequence[Column[str]] = [
        Column("recording", str, label=True),
        Column("target", lambda name: _model(run, name, "target"), label=True),
        Column("draft", lambda name: _model(run, name, "draft"), label=True),
        Column("recorded by", lambda name: str(_about(run, name).get("engine", "otspec")), label=True),
        Column("measured on", lambda name: " or ".join(sorted({one["machine"] for one in measured[name]})), label=True),
        Column("V", lambda name: _field(run, name, "vocab")),
        Column("likeliest drafts", lambda name: _field(run, name, "top_k", "all")),
        Column("temperature", lambda name: _field(run, name, "temperature")),
        Column("K x L", lambda name: _shape(measured[name])),
        Column("trees", lambda name: str(len({one["position"] for one in measured[name]}))),
    ]
    return table("Recordings", columns, measured)


def _by_recording(overview: Overview, show: Callable[[Row], str]) -> list[Column[str]]:
    """Columns of a table of rules: what a figure is on every recording that has them."""

    def column(recording: str, mine: Mapping[str, Row]) -> Column[str]:
        return Column(recording, lambda rule: show(mine[rule]) if rule in mine else NOTHING)

    return [Column("rule", str, label=True), *(column(recording, mine) for recording, mine in overview.items())]


def _about(run: Run, name: str) -> Mapping[str, Any]:
    """The header of a recording."""
    return run.identity["data"].get(name, {}).get("about", {})


def _model(run: Run, name: str, role: str) -> str:
    return next(iter(_about(run, name).get(role, ())), NOTHING)


def _field(run: Run, name: str, field: str, otherwise: str = NOTHING) -> str:
    value = _about(run, name).get(field)
    return otherwise if value is None else f"{value:,}" if isinstance(value, int) else f"{value:g}"


def _shape(records: Sequence[Record]) -> str:
    return f"{records[0]['paths']} x {records[0]['depth']}"
