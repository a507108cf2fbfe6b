"""The pictures of a benchmark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from otspec.bench.panels import Panel, panels_of, written
from otspec.bench.report import labels_of
from otspec.bench.summary import Optima, Summary
from otspec.reporting.plotting import label_lines, line, open_ends, picture
from otspec.reporting.published import OURS, PUBLISHED
from otspec.reporting.style import LIGHT, colour, hue_of, looks

PAPER_MARKERS = ("s", "D", "^", "v", "P")
BESIDE = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5)}
"""Where a legend stands clear of its axes."""


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
    names = labels_of(summaries)
    settings = list(dict.fromkeys((s.cell.k, s.cell.n) for s in summaries))
    labels = {(s.cell.k, s.cell.n): s.cell.setting for s in summaries}
    styles = looks(names)
    _, published = PUBLISHED.get(profile, ("", {}))
    printed = {at: row for at, row in published.items() if at in settings}
    methods = {
        method: {"color": colour(hue_of(solver)), "marker": marker, "fillstyle": "none", "linestyle": "none"}
        for (solver, method), marker in zip(OURS.items(), PAPER_MARKERS, strict=True)
        if any(row[method] is not None for row in printed.values())
    }
    series = len(styles) + len(methods)
    with picture(path, max(8.0, 1.9 * len(settings) + 3), 7.5) as figure:
        times, optima = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
        for number in range(0, len(settings), 2):
            times.axvspan(number - 0.5, number + 0.5, color=LIGHT.faint, alpha=0.35, linewidth=0, zorder=0)
        for number, (solver, look) in enumerate(styles.items()):
            shown = [s for s in summaries if s.cell.solver == solver and not s.refused]
            at = np.array([settings.index((s.cell.k, s.cell.n)) for s in shown]) + _shift(number, series)
            low, middle, high = np.array([s.quartiles_ms for s in shown]).reshape(-1, 3).T
            style = {**line(look), "linestyle": "none", "label": names[solver]}
            times.errorbar(at, middle, yerr=(middle - low, high - middle), **style)
            open_ends(times, at, high, np.array([s.lower_bound for s in shown], dtype=bool), look.colour())
        for number, (method, style) in enumerate(methods.items(), start=len(styles)):
            rows = [(settings.index(at), row[method]) for at, row in printed.items()]
            points = [(at, time.ms, time.lower_bound) for at, time in rows if time is not None]
            at, ms, lower = (np.array(column) for column in zip(*points, strict=True))
            at = at + _shift(number, series)
            times.plot(at, ms, label=f"paper: {method}", **style)
            open_ends(times, at, ms, lower, style["color"])
        times.set_yscale("log")
        times.set_ylabel("ms per token (median, quartiles; the paper's mean)")
        times.set_title(f"Solve time on {profile}; an arrow marks a lower bound")
        times.legend(**BESIDE)
        for axes in (times, optima):
            axes.grid(visible=False, axis="x")
        at_setting = {
            at: [value for key, value in known.items() if key[1:3] == setting] for at, setting in enumerate(settings)
        }
        best = {at: float(np.mean(values)) for at, values in at_setting.items() if values}
        optima.plot(list(best), list(best.values()), marker="D", linestyle="none", color=LIGHT.ink)
        for place, value in best.items():
            optima.annotate(f"{value:.3f}", (place, value), xytext=(8, -3), textcoords="offset points")
        optima.margins(y=0.25)
        optima.set_ylabel("mean alpha*")
        optima.set_xticks(range(len(settings)), [labels[setting] for setting in settings])
        optima.set_xlim(-0.5, len(settings) - 0.5)
        optima.set_xlabel("(k, n): draft tokens kept, drafts per position")


def plot_lines(summaries: Sequence[Summary], profile: str, path: Path) -> bool:
    """Draw time and acceptance of every solver against k, a column for each n, and against n, a column for each k.

    Acceptance over some of the positions only, of a solver that gave up the others, is drawn hollow: it compares with
    nothing.  What does compare is the row below, acceptance minus alpha* position by position.

    Returns
    -------
    bool
        Whether there is anything to draw: two values of k at one n, or of n at one k.
    """
    panels = panels_of(summaries)
    if not panels:
        return False
    names = labels_of(summaries)
    with picture(path, 3.6 * len(panels) + 2.4, 10) as figure:
        rows = figure.subplots(3, len(panels), sharey="row", squeeze=False)
        for panel, column in zip(panels, rows.T, strict=True):
            _draw_lines(panel, names, column)
        rows[0, 0].set_ylabel("ms per token (median, quartiles)")
        rows[1, 0].set_ylabel("acceptance (mean ± standard error)")
        rows[2, 0].set_ylabel("acceptance minus alpha*, same positions")
        parted = "; " if len(panels) > 2 else "\n"  # one line where there is room for it
        figure.suptitle(
            f"Time and acceptance on {profile}{parted}an arrow marks a lower bound, hollow is over some positions only"
        )
        label_lines(rows[0, -1], **BESIDE)
    return True


def _draw_lines(panel: Panel, names: dict[str, str], column: npt.NDArray[Any]) -> None:
    """Time, acceptance, and what the latter lacks of alpha*, in three axes."""
    times, accepted, shortfall = column
    ticks = panel.ticks
    for number, (solver, look) in enumerate(looks(names).items()):
        style = {**line(look), "linewidth": 1.0, "label": names[solver]}
        shift = 0.5 * _shift(number, len(names))
        mine = [s for s in panel.summaries if s.cell.solver == solver]
        shown = [s for s in mine if not s.refused]
        at = np.array([ticks.index(panel.place(s)) for s in shown]) + shift
        low, middle, high = np.array([s.quartiles_ms for s in shown]).reshape(-1, 3).T
        times.errorbar(at, middle, yerr=(middle - low, high - middle), **style)
        open_ends(times, at, high, np.array([s.lower_bound for s in shown], dtype=bool), look.colour())
        shown = [s for s in mine if s.acceptance is not None]
        for whole in (True, False):
            some = [s for s in shown if panel.whole(s) is whole]
            at = np.array([ticks.index(panel.place(s)) for s in some]) + shift
            error = np.nan_to_num([s.acceptance_error for s in some])
            hollow = {} if whole else {"markerfacecolor": LIGHT.paper, "linestyle": "none"}
            accepted.errorbar(at, [s.acceptance for s in some], yerr=error, **{**style, **hollow})
        paired = [s for s in shown if s.optimum is not None]
        at = np.array([ticks.index(panel.place(s)) for s in paired]) + shift
        below = [(s.acceptance or 0.0) - (s.optimum or 0.0) for s in paired]
        shortfall.errorbar(at, below, yerr=np.nan_to_num([s.shortfall_error for s in paired]), **style)
    times.set_yscale("log")
    times.set_title(panel.fixed)
    shortfall.set_xlabel(panel.axis)
    for axes in column:
        axes.set_xticks(range(len(ticks)), [written(tick) for tick in ticks])
        axes.grid(visible=False, axis="x")


def _shift(number: int, series: int) -> float:
    """Where a series stands beside the tick of its setting, so that none hides another."""
    return (number - (series - 1) / 2) * 0.86 / series
