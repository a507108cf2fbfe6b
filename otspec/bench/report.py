"""The tables of a benchmark."""

from __future__ import annotations

from collections.abc import Sequence

from otspec.bench.summary import Optima, Summary
from otspec.reporting.published import METHODS, OURS, OURS_ALONE, PUBLISHED
from otspec.reporting.tables import TextTable


def overview_table(summaries: Sequence[Summary], known: Optima, data: str) -> TextTable:
    """Mean time of every solver at every setting, and the optimum there, in one screen."""
    settings = list(dict.fromkeys(summary.cell.setting for summary in summaries))
    cells = {(s.cell.solver, s.cell.setting): s for s in summaries}
    labels = labels_of(summaries)
    rows: list[tuple[str, ...]] = []
    for solver in dict.fromkeys(summary.cell.solver for summary in summaries):
        row = (cells.get((solver, setting)) for setting in settings)
        rows.append((labels[solver], *("-" if summary is None else _mean_ms(summary, share=True) for summary in row)))
    names = {summary.cell.setting: (summary.cell.data, summary.cell.k, summary.cell.n) for summary in summaries}
    best = {name: [value for key, value in known.items() if key[:3] == at] for name, at in names.items()}
    rows.append(("mean alpha*", *(_mean(best[setting]) for setting in settings)))
    note = (
        "Mean ms per token over the positions that were solved or cut short, in brackets the share of those measured "
        "that were solved, where it is not all; >= marks a lower bound, cut off by the time budget. Columns: (k, n). "
        "alpha* is the mean over every position measured there. A lossy rule changes the law of the text; a suboptimal "
        "one accepts less than alpha*."
    )
    return TextTable(f"Overview: {data}", ("solver", *settings), rows, note, labels=1)


def results_table(summaries: Sequence[Summary], data: str) -> TextTable:
    """Times and figures of every cell."""
    header = ("(k, n)", "solver", "mean", "median [25 %, 75 %]", "given up", "solved")
    figures = ("acceptance", "alpha* there", "max gap", "max dev.")
    rows = [_row(summary) for summary in summaries]
    note = (
        "Times in ms per token, one core: from the problem to the law of the output given one drafted tuple, compact "
        "vocabulary (k tokens and one for the rest), imports and compilation apart, over the positions that were "
        "solved or cut short; `given up` is the mean time of those that a solver gave up. A >= marks a cell whose "
        "time budget ended inside a position. `solved`: of the positions measured, and `of` how many where an "
        "interrupt or the budget left some out. `acceptance` and `alpha* there`, the certified optimum, are means over "
        "the same positions, those with a plan; `dev.` is the L1 distance of the exact output law to p. A lossy rule "
        "changes the law of the text; a suboptimal one accepts less than alpha*."
    )
    details = frozenset(("median [25 %, 75 %]", "given up", "max gap", "max dev."))
    return TextTable(f"Solvers on {data}", header + figures, rows, note, details=details)


def failures_table(summaries: Sequence[Summary]) -> TextTable | None:
    """Why positions were not solved, or None if all were."""
    rows: list[tuple[str, ...]] = [
        (s.cell.setting, s.cell.solver, f"{s.positions - s.solved}/{s.positions}", s.reason)
        for s in summaries
        if s.reason
    ]
    if not rows:
        return None
    return TextTable("Not solved", ("(k, n)", "solver", "positions", "commonest reason"), rows, "")


def published_table(summaries: Sequence[Summary], profile: str) -> TextTable | None:
    """The paper's times beside ours, or None if it has none for these data or settings."""
    if profile not in PUBLISHED:
        return None
    title, published = PUBLISHED[profile]
    ours = {(s.cell.k, s.cell.n, s.cell.solver): s for s in summaries}
    settings = [setting for setting in published if any(key[:2] == setting for key in ours)]
    if not settings:
        return None
    methods = {method: solver for solver, method in OURS.items()}
    rows: list[tuple[str, ...]] = []
    for setting in settings:
        for method in METHODS:
            printed = published[setting][method]
            summary = ours.get((*setting, methods.get(method, "")))
            rows.append(
                (
                    f"({setting[0]}, {setting[1]})",
                    method,
                    "out of memory" if printed is None else str(printed),
                    methods.get(method, "-"),
                    "-" if summary is None else _mean_ms(summary, share=True),
                )
            )
        for solver in OURS_ALONE:
            if (*setting, solver) in ours:
                shown = _mean_ms(ours[*setting, solver], share=True)
                rows.append((f"({setting[0]}, {setting[1]})", "-", "-", solver, shown))
    note = (
        "Mean ms per token, ours over the positions solved or cut short; `+` and >= mark lower bounds, percentages the "
        "share of positions solved. Paper: Thomas and "
        "Pal, Global Resolution, arXiv:2511.15898. Ours groups tuples by their set of distinct tokens and runs on "
        "another processor and on synthetic laws: compare trends, not digits."
    )
    return TextTable(f"Beside the paper: {title}", ("(k, n)", "method", "paper", "our solver", "ours"), rows, note)


def labels_of(summaries: Sequence[Summary]) -> dict[str, str]:
    """How each solver is called in what shows all of its cells: with a mark where one of them needs it."""
    found: dict[str, set[str]] = {}
    for summary in summaries:
        found.setdefault(summary.cell.solver, set()).add(summary.kind)
    return {solver: _label(solver, min(kinds - {""}, default="")) for solver, kinds in found.items()}


def _label(solver: str, kind: str) -> str:
    return f"{solver} ({kind})" if kind else solver


def _row(summary: Summary) -> tuple[str, ...]:
    low, median, high = map(milliseconds, summary.quartiles_ms)
    times = ("refused", "-") if summary.refused else (_mean_ms(summary), f"{median} [{low}, {high}]")
    left_out = f" of {summary.wanted}" if summary.positions < summary.wanted else ""
    return (
        summary.cell.setting,
        _label(summary.cell.solver, summary.kind),
        *times,
        "-" if summary.failed_mean_ms is None else milliseconds(summary.failed_mean_ms),
        f"{summary.solved}/{summary.positions}{left_out}",
        *("-" if value is None else f"{value:.4f}" for value in (summary.acceptance, summary.optimum)),
        *("-" if value is None else f"{max(value, 0.0):.0e}" for value in (summary.gap, summary.deviation)),
    )


def _mean_ms(summary: Summary, share: bool = False) -> str:
    """The mean, on request with the share of positions solved where that is not all of them."""
    if summary.refused or summary.mean_ms is None:
        return "refused"
    solved = f" ({summary.solved / summary.positions:.0%})" if share and summary.solved < summary.positions else ""
    return f"{'>= ' if summary.lower_bound else ''}{milliseconds(summary.mean_ms)}{solved}"


def _mean(values: Sequence[float]) -> str:
    return f"{sum(values) / len(values):.4f}" if values else "-"


def milliseconds(value: float) -> str:
    """Three significant digits, never in exponent form."""
    return f"{value:.3g}" if value < 100 else f"{value:,.0f}"
