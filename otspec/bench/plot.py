"""The picture of a benchmark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from otspec.bench.report import labels_of
from otspec.bench.summary import Optima, Summary
from otspec.laws import BoolArray, FloatArray
from otspec.reporting.plotting import pyplot
from otspec.reporting.published import OURS, PUBLISHED

PAPER_MARKERS = ("s", "D", "^", "v", "P")


def plot(summaries: Sequence[Summary], known: Optima, profile: str, path: Path) -> None:
    """Draw times per solver and setting, and the optimal acceptance of each setting, into one picture.

    Parameters
    ----------
    summaries : sequence of Summary
    known : mapping
        alpha* by data, k, n and position.
    profile : str
        Name of the data; the paper's times are drawn, hollow, where it has some for them.
    path : Path
        A .png or .svg file.
    """
    plt = pyplot()
    names = labels_of(summaries)
    settings = list(dict.fromkeys((s.cell.k, s.cell.n) for s in summaries))
    labels = {(s.cell.k, s.cell.n): s.cell.setting for s in summaries}
    solvers = list(dict.fromkeys(s.cell.solver for s in summaries))
    _, published = PUBLISHED.get(profile, ("", {}))
    printed = {at: row for at, row in published.items() if at in settings}
    methods = {
        method: marker
        for method, marker in zip(OURS.values(), PAPER_MARKERS, strict=True)
        if any(row[method] is not None for row in printed.values())
    }
    series = len(solvers) + len(methods)
    figure, (times, optima) = plt.subplots(
        2, 1, figsize=(max(8.0, 1.9 * len(settings) + 3), 7.5), sharex=True, height_ratios=(3, 1), layout="constrained"
    )
    for number in range(0, len(settings), 2):
        times.axvspan(number - 0.5, number + 0.5, color="0.95", zorder=0)
    for number, solver in enumerate(solvers):
        shown = [s for s in summaries if s.cell.solver == solver and not s.refused]
        at = np.array([settings.index((s.cell.k, s.cell.n)) for s in shown]) + _shift(number, series)
        low, middle, high = np.array([s.quartiles_ms for s in shown]).reshape(-1, 3).T
        colour = _colour(plt, number, len(solvers))
        style = {"color": colour, "marker": "o", "markersize": 5, "linestyle": "none"}
        times.errorbar(at, middle, yerr=(middle - low, high - middle), capsize=2, label=names[solver], **style)
        _draw_arrows(times, at, high, np.array([s.lower_bound for s in shown], dtype=bool), colour)
    for number, (method, marker) in enumerate(methods.items(), start=len(solvers)):
        rows = [(settings.index(at), row[method]) for at, row in printed.items()]
        points = [(at, time.ms, time.lower_bound) for at, time in rows if time is not None]
        at, ms, lower = (np.array(column) for column in zip(*points, strict=True))
        at = at + _shift(number, series)
        style = {"color": "0.35", "marker": marker, "fillstyle": "none", "linestyle": "none"}
        times.plot(at, ms, label=f"paper: {method}", **style)
        _draw_arrows(times, at, ms, lower, "0.35")
    times.set_yscale("log")
    times.set_ylabel("ms per token (median, quartiles; the paper's mean)")
    times.set_title(f"Solve time on {profile}; an arrow marks a lower bound")
    times.grid(axis="y", alpha=0.3)
    times.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    at_setting = {
        at: [value for key, value in known.items() if key[1:3] == setting] for at, setting in enumerate(settings)
    }
    best = {at: float(np.mean(values)) for at, values in at_setting.items() if values}
    optima.plot(list(best), list(best.values()), marker="D", linestyle="none", color="0.2")
    for place, value in best.items():
        optima.annotate(f"{value:.3f}", (place, value), xytext=(8, -3), textcoords="offset points", fontsize=9)
    optima.margins(y=0.25)
    optima.grid(axis="y", alpha=0.3)
    optima.set_ylabel("mean alpha*")
    optima.set_xticks(range(len(settings)), [labels[setting] for setting in settings])
    optima.set_xlim(-0.5, len(settings) - 0.5)
    optima.set_xlabel("(k, n): draft tokens kept, drafts per position")
    figure.savefig(path, dpi=130)
    plt.close(figure)


def plot_lines(summaries: Sequence[Summary], profile: str, path: Path) -> bool:
    """Draw time and acceptance of every solver against k, a column for each n, and against n, a column for each k.

    Acceptance over some of the positions only, of a solver that gave up the others, is drawn hollow: it compares with
    nothing.  What does compare is the row below, acceptance minus alpha* position by position.

    Returns
    -------
    bool
        Whether there is anything to draw: two values of k at one n, or of n at one k.
    """
    plt = pyplot()
    names = labels_of(summaries)
    solvers = list(names)
    ns, ks = (list(dict.fromkeys(getattr(s.cell, letter) for s in summaries)) for letter in "nk")
    columns = [
        *(("k, draft tokens kept", f"n = {n}", _where("n", n), _where_k) for n in sorted(ns)),
        *(("n, drafts per position", f"k = {k or 'V'}", _where("k", k), _where_n) for k in sorted(ks, key=_order)),
    ]
    columns = [one for one in columns if len({one[3](s) for s in summaries if one[2](s)}) > 1]
    if not columns:
        return False
    figure, axes = plt.subplots(
        3, len(columns), figsize=(3.6 * len(columns) + 2.4, 10), sharey="row", squeeze=False, layout="constrained"
    )
    for column, (letter, title, chosen, place) in enumerate(columns):
        times, accepted, shortfall = axes[:, column]
        mine = [summary for summary in summaries if chosen(summary)]
        ticks = sorted({place(summary) for summary in mine}, key=_order)
        for number, solver in enumerate(solvers):
            style = {"color": _colour(plt, number, len(solvers)), "marker": "o", "markersize": 4, "capsize": 2}
            style |= {"linewidth": 1.0, "label": names[solver]}
            shift = 0.5 * _shift(number, len(solvers))
            shown = [s for s in mine if s.cell.solver == solver and not s.refused]
            at = np.array([ticks.index(place(s)) for s in shown]) + shift
            low, middle, high = np.array([s.quartiles_ms for s in shown]).reshape(-1, 3).T
            times.errorbar(at, middle, yerr=(middle - low, high - middle), **style)
            _draw_arrows(times, at, high, np.array([s.lower_bound for s in shown], dtype=bool), style["color"])
            shown = [s for s in mine if s.cell.solver == solver and s.acceptance is not None]
            most = {place(s): max(other.planned for other in mine if place(other) == place(s)) for s in shown}
            for whole in (True, False):
                some = [s for s in shown if (s.planned == most[place(s)]) is whole]
                at = np.array([ticks.index(place(s)) for s in some]) + shift
                error = np.nan_to_num([s.acceptance_error for s in some])
                hollow = {} if whole else {"markerfacecolor": "white", "linestyle": "none"}
                accepted.errorbar(at, [s.acceptance for s in some], yerr=error, **style, **hollow)
            paired = [s for s in shown if s.optimum is not None]
            at = np.array([ticks.index(place(s)) for s in paired]) + shift
            below = [(s.acceptance or 0.0) - (s.optimum or 0.0) for s in paired]
            shortfall.errorbar(at, below, yerr=np.nan_to_num([s.shortfall_error for s in paired]), **style)
        times.set_yscale("log")
        times.set_title(title)
        shortfall.set_xlabel(letter)
        for panel in (times, accepted, shortfall):
            panel.set_xticks(range(len(ticks)), [str(tick or "V") for tick in ticks])
            panel.grid(axis="y", alpha=0.3)
    axes[0, 0].set_ylabel("ms per token (median, quartiles)")
    axes[1, 0].set_ylabel("acceptance (mean ± standard error)")
    axes[2, 0].set_ylabel("acceptance minus alpha*, same positions")
    axes[0, -1].legend(fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.suptitle(
        f"Time and acceptance on {profile}; an arrow marks a lower bound, hollow is over some positions only"
    )
    figure.savefig(path, dpi=130)
    plt.close(figure)
    return True


def _where(letter: str, value: int) -> Callable[[Summary], bool]:
    return lambda summary: getattr(summary.cell, letter) == value


def _where_k(summary: Summary) -> int:
    return summary.cell.k


def _where_n(summary: Summary) -> int:
    return summary.cell.n


def _order(value: int) -> float:
    """Small first, and the whole vocabulary, written 0, last."""
    return value or np.inf


def _colour(plt: Any, number: int, series: int) -> Any:
    return plt.get_cmap("tab10" if series <= 10 else "tab20")(number % 20)


def _shift(number: int, series: int) -> float:
    """Where a series stands beside the tick of its setting, so that none hides another."""
    return (number - (series - 1) / 2) * 0.86 / series


def _draw_arrows(axes: Any, at: FloatArray, top: FloatArray, where: BoolArray, colour: Any) -> None:
    axes.plot(at[where], top[where] * 1.35, marker="$\\uparrow$", markersize=9, linestyle="none", color=colour)
