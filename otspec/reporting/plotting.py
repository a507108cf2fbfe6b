"""matplotlib as every picture of ours uses it, in the one style of `otspec.reporting.style`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import isotonic_regression

from otspec.extras import require
from otspec.laws import BoolArray, FloatArray
from otspec.reporting.means import standard_error
from otspec.reporting.style import DASHES, HUES, LIGHT, Look, darker

SETTINGS = {
    "figure.facecolor": LIGHT.paper,
    "figure.titlesize": 11,
    "font.size": 9,
    "text.color": LIGHT.ink,
    "axes.edgecolor": LIGHT.grey,
    "axes.labelcolor": LIGHT.ink,
    "axes.titlecolor": LIGHT.ink,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": LIGHT.faint,
    "grid.linewidth": 0.7,
    "xtick.color": LIGHT.grey,
    "ytick.color": LIGHT.grey,
    "xtick.labelcolor": LIGHT.ink,
    "ytick.labelcolor": LIGHT.ink,
    "lines.linewidth": 1.4,
    "lines.markersize": 4.5,
    "errorbar.capsize": 2,
    "hatch.color": LIGHT.paper,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "savefig.dpi": 130,
}
LETTERS = 8
"""Size of labels at lines, in points."""
APART = 1.25 * LETTERS
"""Points between the middles of two such labels, at least."""
FARTHEST = 2.5 * APART
"""Points that a label may stand above or below the end of its line."""


@contextmanager
def picture(path: Path, width: float, height: float) -> Iterator[Any]:
    """A figure to draw on, of a size in inches, written to a .png or .svg file at the end.

    matplotlib's settings and backend are left as they are for everybody else.

    Raises
    ------
    MissingExtra
        If matplotlib is not installed.
    """
    matplotlib, cycler = require("matplotlib"), require("cycler").cycler
    figures = require("matplotlib.figure")
    with matplotlib.rc_context({**SETTINGS, "axes.prop_cycle": cycler(color=list(HUES.values()))}):
        figure = figures.Figure(figsize=(width, height), layout="constrained")
        yield figure
        figure.savefig(path)


def line(look: Look) -> dict[str, Any]:
    """What matplotlib's plot and errorbar take to draw a series in its look."""
    style = (0, look.dash) if look.dash else "-"
    return {"color": look.colour(), "marker": look.marker.matplotlib, "linestyle": style}


def fill(look: Look) -> dict[str, Any]:
    """What matplotlib's bars take to draw a series in its look."""
    return {"color": look.colour(), "hatch": look.marker.hatch, "edgecolor": LIGHT.paper, "linewidth": 0.5}


def ramp(count: int) -> list[str]:
    """Colours of an ordered series, dark to light, as of k, n or temperatures."""
    matplotlib = require("matplotlib")
    shades = matplotlib.colormaps["viridis"](np.linspace(0.05, 0.85, count))
    return [require("matplotlib.colors").to_hex(shade) for shade in shades]


def ordered(count: int) -> list[dict[str, Any]]:
    """Styles of an ordered series: a `ramp`, with dashes that tell neighbours apart."""
    return [
        {"color": shade, "linestyle": (0, dash) if (dash := DASHES[at % 2]) else "-"}
        for at, shade in enumerate(ramp(count))
    ]


def draw_means(axes: Any, x: Sequence[float], samples: Iterable[ArrayLike], **style: Any) -> None:
    """Means of samples, one for each x, with their standard errors; `style` is what errorbar takes."""
    values = [np.asarray(sample, dtype=float) for sample in samples]
    errors = np.nan_to_num([standard_error(one) for one in values])
    axes.errorbar(x, [one.mean() for one in values], errors, **style)


def error_bars(intervals: Sequence[tuple[float, float, float]]) -> FloatArray:
    """Lengths of error bars below and above figures, shape (2, n), from (figure, low, high); 0 for NaN."""
    lengths = [(value - low, high - value) for value, low, high in intervals]
    return np.nan_to_num(np.array(lengths)).clip(min=0).T


def open_ends(axes: Any, at: FloatArray, top: FloatArray, where: BoolArray, colour: str) -> None:
    """Arrows on what is a lower bound, on a logarithmic axis."""
    axes.plot(at[where], top[where] * 1.35, marker="$\\uparrow$", markersize=9, linestyle="none", color=colour)


def label_lines(axes: Any, **legend: Any) -> None:
    """Write the labels of lines right of the axes, at the heights where the lines end; a legend where they do not fit.

    Call it last, on the right-most axes.  Labels fit if each can stand within `FARTHEST` of the end of its line, clear
    of the others.

    Parameters
    ----------
    axes : matplotlib Axes
    **legend
        What the legend takes, in case.
    """
    axes.figure.figure.draw_without_rendering()  # places and scales are known only then
    ends = [(height, shown, label) for shown, label in _labelled(axes) if (height := _end(axes, shown)) is not None]
    points = axes.get_window_extent().height * 72 / axes.figure.figure.dpi
    places = spread([height * points for height, _, _ in ends], APART, points)
    handles, names = axes.get_legend_handles_labels()
    if places is None or len(ends) < len(names):
        axes.legend(handles, names, **legend)
        return
    for place, (_, shown, label) in zip(places, ends, strict=True):
        where = {"xycoords": "axes fraction", "xytext": (6, 0), "textcoords": "offset points"}
        colour = darker(require("matplotlib.colors").to_hex(shown.get_color()))
        axes.annotate(label, (1.0, place / points), **where, fontsize=LETTERS, color=colour, va="center")


def _labelled(axes: Any) -> list[tuple[Any, str]]:
    """Lines with a label, those of error bars included."""
    handles, names = axes.get_legend_handles_labels()
    lines = [handle[0] if isinstance(handle, tuple) else handle for handle in handles]
    return [(one, name) for one, name in zip(lines, names, strict=True) if hasattr(one, "get_ydata")]


def _end(axes: Any, shown: Any) -> float | None:
    """Where a line ends, as a share of the height of its axes; None if it has no point in sight."""
    x, y = (np.atleast_1d(np.asarray(values, dtype=float)) for values in (shown.get_xdata(), shown.get_ydata()))
    seen = np.isfinite(y)
    if not seen.any():
        return None
    last = np.flatnonzero(seen)[np.argmax(x[seen])]
    _, height = axes.transAxes.inverted().transform(axes.transData.transform((axes.get_xlim()[0], y[last])))
    return float(height) if 0 <= height <= 1 else None


def spread(wanted: Sequence[float], apart: float, most: float) -> list[float] | None:
    """Places in [0, most] so far apart, nearest to the wanted ones in squares; None if one is beyond `FARTHEST`."""
    order = np.argsort(wanted, kind="stable")
    steps = apart * np.arange(order.size)
    room = most - apart * (order.size - 1)
    if room < 0:
        return None
    near = isotonic_regression(np.asarray(wanted, dtype=float)[order] - steps).x if order.size else order
    found = np.empty(order.size)
    found[order] = np.clip(near, 0.0, room) + steps
    return None if np.any(np.abs(found - wanted) > FARTHEST) else [float(place) for place in found]
