"""The tables of a benchmark."""

from __future__ import annotations

from collections.abc import Sequence

from otspec.bench.summary import Summary
from otspec.reporting.published import METHODS, OURS, OURS_ALONE, PUBLISHED
from otspec.reporting.tables import TextTable


def overview_table(summaries: Sequence[Summary], data: str) -> TextTable:
    """Mean time of every solver at every setting, and the optimum there, in one screen."""
    settings = list(dict.fromkeys(summary.cell.setting for summary in summaries))
    cells = {(s.cell.solver, s.cell.setting): s for s in summaries}
    rows: list[tuple[str, ...]] = []
    for solver in dict.fromkeys(summary.cell.solver for summary in summaries):
        row = (cells.get((solver, setting)) for setting in settings)
        rows.append((solver, *("-" if summary is None else _mean_ms(summary, share=True) for summary in row)))
    most = sorted((s for s in summaries if s.optimum is not None), key=lambda s: s.positions)
    best = {s.cell.setting: f"{s.optimum:.4f}" for s in most}
    rows.append(("mean alpha*", *(best.get(setting, "-") for setting in settings)))
    note = (
        "Mean ms per token, in brackets the share solved where it is not all; >= marks a lower bound, cut off by the "
        "time budget. Columns: (k, n)."
    )
    return TextTable(f"Overview: {data}", ("solver", *settings), rows, note, labels=1)


def results_table(summaries: Sequence[Summary], data: str) -> TextTable:
    """Times and figures of every cell."""
    header = ("(k, n)", "solver", "mean", "median [25 %, 75 %]", "of solved", "solved")
    figures = ("acceptance", "alpha*", "max gap", "max dev.")
    rows = [_row(summary) for summary in summaries]
    note = (
        "Times in ms per token, one core: from the problem to the law of the output given one drafted tuple, compact "
        "vocabulary (k tokens and one for the rest), imports and compilation apart. A >= marks a cell whose time "
        "budget ended inside a position; `of solved` is the mean over the solved positions alone. `acceptance` and "
        "`alpha*`, the certified optimum, are means over the positions that the cell got through; `dev.` is the L1 "
        "distance of the exact output law to p."
    )
    details = frozenset(("median [25 %, 75 %]", "of solved", "max gap", "max dev."))
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
        "Mean ms per token; `+` and >= mark lower bounds, percentages the share of positions solved. Paper: Thomas and "
        "Pal, Global Resolution, arXiv:2511.15898. Ours groups tuples by their set of distinct tokens and runs on "
        "another processor and on synthetic laws: compare trends, not digits."
    )
    return TextTable(f"Beside the paper: {title}", ("(k, n)", "method", "paper", "our solver", "ours"), rows, note)


def _row(summary: Summary) -> tuple[str, ...]:
    low, median, high = map(_ms, summary.quartiles_ms)
    times = ("refused", "-") if summary.refused else (_mean_ms(summary), f"{median} [{low}, {high}]")
    return (
        summary.cell.setting,
        summary.cell.solver,
        *times,
        "-" if summary.solved_mean_ms is None else _ms(summary.solved_mean_ms),
        f"{summary.solved}/{summary.positions}",
        *("-" if value is None else f"{value:.4f}" for value in (summary.acceptance, summary.optimum)),
        *("-" if value is None else f"{max(value, 0.0):.0e}" for value in (summary.gap, summary.deviation)),
    )


def _mean_ms(summary: Summary, share: bool = False) -> str:
    """The mean, on request with the share of positions solved where that is not all of them."""
    if summary.refused:
        return "refused"
    solved = f" ({summary.solved / summary.positions:.0%})" if share and summary.solved < summary.positions else ""
    return f"{'>= ' if summary.lower_bound else ''}{_ms(summary.mean_ms)}{solved}"


def _ms(value: float) -> str:
    """Three significant digits, never in exponent form."""
    return f"{value:.3g}" if value < 100 else f"{value:,.0f}"
