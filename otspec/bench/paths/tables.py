"""Tables of the benchmark of recorded trees."""

from __future__ import annotations

from collections.abc import Sequence

from otspec.bench.intervals import FEWEST
from otspec.bench.paths.summary import Row
from otspec.reporting.columns import NOTHING, Column, figure, table
from otspec.reporting.tables import TextTable

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
