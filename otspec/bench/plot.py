"""The picture of a benchmark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from otspec.bench.summary import Summary
from otspec.laws import BoolArray, FloatArray
from otspec.reporting.plotting import pyplot
from otspec.reporting.published import OURS, PUBLISHED

PAPER_MARKERS = ("s", "D", "^", "v", "P")


def plot(summaries: Sequence[Summary], profile: str, path: Path) -> None:
    """Draw times per solver and setting, and the optimal acceptance of each setting, into one picture.

    Parameters
    ----------
    summaries : sequence of Summary
    profile : str
        Name of the data; the paper's times are drawn, hollow, where it has some for them.
    path : Path
        A .png or .svg file.
    """
    plt = pyplot()
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
        colour = plt.get_cmap("tab10" if len(solvers) <= 10 else "tab20")(number % 20)
        style = {"color": colour, "marker": "o", "markersize": 5, "linestyle": "none"}
        times.errorbar(at, middle, yerr=(middle - low, high - middle), capsize=2, label=solver, **style)
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
    most = sorted((s for s in summaries if s.optimum is not None), key=lambda s: s.positions)
    best = {settings.index((s.cell.k, s.cell.n)): s.optimum for s in most}
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


def _shift(number: int, series: int) -> float:
    """Where a series stands beside the tick of its setting, so that none hides another."""
    return (number - (series - 1) / 2) * 0.86 / series


def _draw_arrows(axes: Any, at: FloatArray, top: FloatArray, where: BoolArray, colour: Any) -> None:
    axes.plot(at[where], top[where] * 1.35, marker="$\\uparrow$", markersize=9, linestyle="none", color=colour)
