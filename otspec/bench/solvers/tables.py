"""The tables of the benchmark of solvers."""

from __future__ import annotations

from collections.abc import Sequence

from otspec.bench.solvers.summary import Row, over_data
from otspec.reporting.published import METHODS, OURS, OURS_ALONE, PUBLISHED, PublishedTime
from otspec.reporting.tables import NOTHING, Column, TextTable, figure, milliseconds, table

RESULTS: Sequence[Column[Row]] = (
    Column("(k, n)", lambda one: str(one["setting"]), label=True),
    Column("solver", lambda one: str(one["label"]), label=True),
    Column("mean", lambda one: _mean_ms(one)),
    Column("median [25 %, 75 %]", lambda one: _quartiles(one), detail=True),
    Column("given up", lambda one: NOTHING if one["given_up"] is None else milliseconds(one["given_up"]), detail=True),
    Column("solved", lambda one: _solved(one)),
    Column("acceptance", lambda one: figure(one["acceptance"], ".4f")),
    Column("alpha* there", lambda one: figure(one["optimum"], ".4f")),
    Column("max gap", lambda one: _largest(one["gap"]), detail=True),
    Column("max dev.", lambda one: _largest(one["deviation"]), detail=True),
)
"""A row for every cell."""

FAILURES: Sequence[Column[Row]] = (
    Column("(k, n)", lambda one: str(one["setting"]), label=True),
    Column("solver", lambda one: str(one["solver"]), label=True),
    Column("positions", lambda one: f"{one['positions'] - one['solved']}/{one['positions']}"),
    Column("commonest reason", lambda one: str(one["reason"])),
)


def overview_table(rows: Sequence[Row], data: str) -> TextTable:
    """Mean time of every solver at every setting, and the optimum there, in one screen."""
    best = {one["setting"]: figure(one["best"], ".4f") for one in rows}
    cells = {(one["solver"], one["setting"]): _mean_ms(one, share=True) for one in rows}
    lines = [
        (label, *(cells.get((solver, setting), NOTHING) for setting in best))
        for solver, label in labels_of(rows).items()
    ]
    lines.append(("mean alpha*", *best.values()))
    note = (
        "Mean ms per token over the positions that were solved or cut short, in brackets the share of those measured "
        "that were solved, where it is not all; >= marks a lower bound, cut off by the time budget. Columns: (k, n). "
        "alpha* is the mean over every position measured there. A lossy rule changes the law of the text; a suboptimal "
        "one accepts less than alpha*."
    )
    return TextTable(f"Overview: {data}", ("solver", *best), lines, note, labels=1)


def results_table(rows: Sequence[Row], data: str) -> TextTable:
    """Times and figures of every cell."""
    note = (
        "Times in ms per token, one core: from the problem to the law of the output given one drafted tuple, compact "
        "vocabulary (k tokens and one for the rest), imports and compilation apart, over the positions that were "
        "solved or cut short; `given up` is the mean time of those that a solver gave up. A >= marks a cell whose "
        "time budget ended inside a position. `solved`: of the positions measured, and `of` how many where an "
        "interrupt or the budget left some out. `acceptance` and `alpha* there`, the certified optimum, are means over "
        "the same positions, those with a plan; `dev.` is the L1 distance of the exact output law to p. A lossy rule "
        "changes the law of the text; a suboptimal one accepts less than alpha*."
    )
    return table(f"Solvers on {data}", RESULTS, rows, note)


def over_data_table(rows: Sequence[Row], data: Sequence[str]) -> TextTable | None:
    """Every cell's mean over several sources of positions, or None where no cell was measured on all of them."""
    averaged = over_data(rows, len(data)) if len(data) > 1 else []
    columns = [column for column in RESULTS if not column.detail]
    note = (
        f"The mean of the means on {', '.join(data)}, each counted once; one that refused all of one of them has none."
    )
    return table(f"Mean over {len(data)} data sets", columns, averaged, note) if averaged else None


def failures_table(rows: Sequence[Row]) -> TextTable | None:
    """Why positions were not solved, or None if all were."""
    failed = [one for one in rows if one["reason"]]
    return table("Not solved", FAILURES, failed) if failed else None


def published_table(rows: Sequence[Row], profile: str) -> TextTable | None:
    """The paper's times beside ours, or None if it has none for these data or settings."""
    if profile not in PUBLISHED:
        return None
    title, published = PUBLISHED[profile]
    ours = {(one["k"], one["n"], one["solver"]): one for one in rows}
    settings = [setting for setting in published if any(key[:2] == setting for key in ours)]
    if not settings:
        return None
    solvers = {method: solver for solver, method in OURS.items()}
    lines: list[tuple[str, ...]] = []
    for k, n in settings:
        for method in METHODS:
            solver = solvers.get(method, "")
            beside = ours.get((k, n, solver))
            shown = NOTHING if beside is None else _mean_ms(beside, share=True)
            lines.append((f"({k}, {n})", method, _printed(published[k, n][method]), solver or NOTHING, shown))
        alone = [ours[k, n, solver] for solver in OURS_ALONE if (k, n, solver) in ours]
        lines += [(f"({k}, {n})", "-", "-", one["solver"], _mean_ms(one, share=True)) for one in alone]
    note = (
        "Mean ms per token, ours over the positions solved or cut short; `+` and >= mark lower bounds, percentages the "
        "share of positions solved. Paper: Thomas and "
        "Pal, Global Resolution, arXiv:2511.15898. Ours groups tuples by their set of distinct tokens and runs on "
        "another processor and on synthetic laws: compare trends, not digits."
    )
    return TextTable(f"Beside the paper: {title}", ("(k, n)", "method", "paper", "our solver", "ours"), lines, note)


def labels_of(rows: Sequence[Row]) -> dict[str, str]:
    """How each solver is called in what shows all of its cells: with a mark where one of them needs it."""
    marks = dict.fromkeys((one["solver"] for one in rows), "")
    for one in sorted(rows, key=lambda one: one["kind"], reverse=True):
        marks[one["solver"]] = one["kind"] or marks[one["solver"]]
    return {solver: f"{solver} ({kind})" if kind else solver for solver, kind in marks.items()}


def _mean_ms(one: Row, share: bool = False) -> str:
    """The mean, on request with the share of positions solved where that is not all of them."""
    if one["refused"] or one["mean"] is None:
        return "refused"
    solved = f" ({one['solved'] / one['positions']:.0%})" if share and one["solved"] < one["positions"] else ""
    return f"{'>= ' if one['lower_bound'] else ''}{milliseconds(one['mean'])}{solved}"


def _quartiles(one: Row) -> str:
    if one["refused"]:
        return NOTHING
    return f"{milliseconds(one['median'])} [{milliseconds(one['low'])}, {milliseconds(one['high'])}]"


def _solved(one: Row) -> str:
    left_out = f" of {one['wanted']}" if one["positions"] < one["wanted"] else ""
    return f"{one['solved']}/{one['positions']}{left_out}"


def _largest(value: float | None) -> str:
    """A gap or deviation; what rounding puts below 0 is 0."""
    return figure(None if value is None else max(value, 0.0), ".0e")


def _printed(time: PublishedTime | None) -> str:
    return "out of memory" if time is None else str(time)
