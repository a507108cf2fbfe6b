"""The picture of the benchmark of recorded trees: what rules accept, and how deep they get."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from otspec.bench.paths import BOUND
from otspec.bench.paths_report import label
from otspec.bench.paths_summary import PathsSummary
from otspec.reporting.plotting import error_bars, label_lines, line, picture
from otspec.reporting.style import LIGHT, Look, looks


def plot_paths(summaries: Mapping[str, Sequence[PathsSummary]], path: Path) -> None:
    """Draw a row for each file, by its title: accepted tokens with their intervals, and the reach of every rule."""
    height = max(3.5, 0.35 * max(map(len, summaries.values())) + 1.5)
    styles = looks(dict.fromkeys(label(one) for mine in summaries.values() for one in mine))
    with picture(path, 13, height * len(summaries)) as figure:
        rows = figure.subplots(len(summaries), 2, squeeze=False)
        for (title, mine), (accepted, reach) in zip(summaries.items(), rows, strict=True):
            rules = [one for one in mine if one.cell.rule != BOUND and one.trees]
            bound = [one.accepted.value for one in mine if one.cell.rule == BOUND]
            _draw_accepted(accepted, rules, bound, styles)
            _draw_reach(reach, rules, styles)
            accepted.set_title(title)


def _draw_accepted(
    axes: Any, rules: Sequence[PathsSummary], bound: Sequence[float], styles: Mapping[str, Look]
) -> None:
    for number, one in enumerate(rules):
        bars = error_bars([(one.accepted.value, one.accepted.low, one.accepted.high)])
        axes.errorbar(one.accepted.value, number, xerr=bars, **line(styles[label(one)]) | {"linestyle": "none"})
    for value in bound:
        axes.axvline(value, color=LIGHT.grey, linestyle="--", label="bound on lossless rules")
        axes.legend()
    axes.set_yticks(range(len(rules)), [label(one) for one in rules])
    axes.set_ylim(len(rules) - 0.5, -0.5)
    axes.set_xlabel("accepted tokens of a tree, 95 % intervals over prompts")
    axes.grid(visible=False, axis="y")


def _draw_reach(axes: Any, rules: Sequence[PathsSummary], styles: Mapping[str, Look]) -> None:
    for one in rules:
        depths = np.arange(1, len(one.reach) + 1)
        axes.plot(depths, one.reach, label=label(one), **line(styles[label(one)]))
    axes.set_xlabel("drafted tokens")
    axes.set_ylabel("P(so many or more are accepted)")
    axes.set_ylim(0, 1)
    axes.xaxis.get_major_locator().set_params(integer=True)
    if rules:
        label_lines(axes)
