"""The tables of the benchmark of solvers."""

from __future__ import annotations

from collections.abc import Sequence

from otspec.bench.solvers.summary import Optima, Summary, over_data
from otspec.reporting.columns import NOTHING, Column, figure, milliseconds, table
from otspec.reporting.published import METHODS, OURS, OURS_ALONE, PUBLISHED, PublishedTime
from otspec.reporting.tables import TextTable

RESULTS: Sequence[Column[Summary]] = (
    Column("(k, n)", lambda one: one.cell.setting, label=True),
    Column("solver", lambda one: _marked(one.cell.solver, one.kind), label=True),
    Column("mean", lambda one: _mean_ms(one)),
    Column("median [25 %, 75 %]", lambda one: _quartiles(one), detail=True),
    Column("given up", lambda one: _optional_ms(one.times.failed_mean), detail=True),
    Column("solved", lambda one: _solved(one)),
    Column("acceptance", lambda one: figure(one.plans.acceptance, ".4f")),
    Column("alpha* there", lambda one: figure(one.plans.optimum, ".4f")),
    Column("max gap", lambda one: _largest(one.plans.gap), detail=True),
    Column("max dev.", lambda one: _largest(one.plans.deviation), detail=True),
)
"""A row for every cell."""

FAILURES: Sequence[Column[Summary]] = (
    Column("(k, n)", lambda one: one.cell.setting, label=True),
    Column("solver", lambda one: one.cell.solver, label=True),
    Column("positions", lambda one: f"{one.positions - one.solved}/{one.positions}"),
    Column("commonest reason", lambda one: one.reason),
)


def overview_table(summaries: Sequence[Summary], known: Optima, data: str) -> TextTable:
    """Mean time of every solver at every setting, and the optimum there, in one screen."""
    settings = {summary.cell.setting: summary.cell for summary in summaries}
    cells = {(one.cell.solver, one.cell.setting): _mean_ms(one, share=True) for one in summaries}
    rows = [
        (label, *(cells.get((solver, setting), NOTHING) for setting in settings))
        for solver, label in labels_of(summaries).items()
    ]
    best = [
        [value for key, value in known.items() if key[:3] == (cell.data, cell.k, cell.n)] for cell in settings.values()
    ]
    rows.append(("mean alpha*", *(f"{sum(values) / len(values):.4f}" if values else NOTHING for values in best)))
    note = (
        "Mean ms per token over the positions that were solved or cut short, in brackets the share of those measured "
        "that were solved, where it is not all; >= marks a lower bound, cut off by the time budget. Columns: (k, n). "
        "alpha* is the mean over every position measured there. A lossy rule changes the law of the text; a suboptimal "
        "one accepts less than alpha*."
    )
    return TextTable(f"Overview: {data}", ("solver", *settings), rows, note, labels=1)


def results_table(summaries: Sequence[Summary], data: str) -> TextTable:
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
    return table(f"Solvers on {data}", RESULTS, summaries, note)


def over_data_table(summaries: Sequence[Summary], data: Sequence[str]) -> TextTable | None:
    """Every cell's mean over several sources of positions, or None where no cell was measured on all of them."""
    averaged = over_data(summaries, len(data)) if len(data) > 1 else []
    columns = [column for column in RESULTS if not column.detail]
    note = (
        f"The mean of the means on {', '.join(data)}, each counted once; one that refused all of one of them has none."
    )
    return table(f"Mean over {len(data)} data sets", columns, averaged, note) if averaged else None


def failures_table(summaries: Sequence[Summary]) -> TextTable | None:
    """Why positions were not solved, or None if all were."""
    failed = [one for one in summaries if one.reason]
    return table("Not solved", FAILURES, failed) if failed else None


def published_table(summaries: Sequence[Summary], profile: str) -> TextTable | None:
    """The paper's times beside ours, or None if it has none for these data or settings."""
    if profile not in PUBLISHED:
        return None
    title, published = PUBLISHED[profile]
    ours = {(one.cell.k, one.cell.n, one.cell.solver): one for one in summaries}
    settings = [setting for setting in published if any(key[:2] == setting for key in ours)]
    if not settings:
        return None
    solvers = {method: solver for solver, method in OURS.items()}
    rows: list[tuple[str, ...]] = []
    for k, n in settings:
        for method in METHODS:
            solver = solvers.get(method, "")
            beside = ours.get((k, n, solver))
            shown = NOTHING if beside is None else _mean_ms(beside, share=True)
            rows.append((f"({k}, {n})", method, _printed(published[k, n][method]), solver or NOTHING, shown))
        alone = [ours[k, n, solver] for solver in OURS_ALONE if (k, n, solver) in ours]
        rows += [(f"({k}, {n})", "-", "-", one.cell.solver, _mean_ms(one, share=True)) for one in alone]
    note = (
        "Mean ms per token, ours over the positions solved or cut short; `+` and >= mark lower bounds, percentages the "
        "share of positions solved. Paper: Thomas and "
        "Pal, Global Resolution, arXiv:2511.15898. Ours groups tuples by their set of distinct tokens and runs on "
        "another processor and on synthetic laws: compare trends, not digits."
    )
    return TextTable(f"Beside the paper: {title}", ("(k, n)", "method", "paper", "our solver", "ours"), rows, note)


def labels_of(summaries: Sequence[Summary]) -> dict[str, str]:
    """How each solver is called in what shows all of its cells: with a mark where one of them needs it."""
    kinds: dict[str, set[str]] = {}
    for summary in summaries:
        kinds.setdefault(summary.cell.solver, set()).add(summary.kind)
    return {solver: _marked(solver, min(found - {""}, default="")) for solver, found in kinds.items()}


def _marked(solver: str, kind: str) -> str:
    return f"{solver} ({kind})" if kind else solver


def _mean_ms(summary: Summary, share: bool = False) -> str:
    """The mean, on request with the share of positions solved where that is not all of them."""
    if summary.refused or summary.times.mean is None:
        return "refused"
    solved = f" ({summary.solved / summary.positions:.0%})" if share and summary.solved < summary.positions else ""
    return f"{'>= ' if summary.times.lower_bound else ''}{milliseconds(summary.times.mean)}{solved}"


def _quartiles(summary: Summary) -> str:
    low, median, high = map(milliseconds, summary.times.quartiles)
    return NOTHING if summary.refused else f"{median} [{low}, {high}]"


def _optional_ms(value: float | None) -> str:
    return NOTHING if value is None else milliseconds(value)


def _solved(summary: Summary) -> str:
    left_out = f" of {summary.wanted}" if summary.positions < summary.wanted else ""
    return f"{summary.solved}/{summary.positions}{left_out}"


def _largest(value: float | None) -> str:
    """A gap or deviation; what rounding puts below 0 is 0."""
    return figure(None if value is None else max(value, 0.0), ".0e")


def _printed(time: PublishedTime | None) -> str:
    return "out of memory" if time is None else str(time)
