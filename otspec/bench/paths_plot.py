"""The picture of the benchmark of recorded trees: what rules accept, and how deep they get."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from otspec.bench.paths import BOUND
from otspec.bench.paths_report import label
from otspec.bench.paths_summary import PathsSummary
from otspec.reporting.plotting import error_bars, pyplot


def plot_paths(summaries: Mapping[str, Sequence[PathsSummary]], path: Path) -> None:
    """Draw a row for each file, by its title: accepted tokens with their intervals, and the reach of every rule."""
    plt = pyplot()
    height = max(3.5, 0.35 * max(map(len, summaries.values())) + 1.5)
    figure, rows = plt.subplots(
        len(summaries), 2, figsize=(13, height * len(summaries)), squeeze=False, layout="constrained"
    )
    for (title, mine), (accepted, reach) in zip(summaries.items(), rows, strict=True):
        rules = [one for one in mine if one.cell.rule != BOUND and one.trees]
        bound = [one.accepted.value for one in mine if one.cell.rule == BOUND]
        _draw_accepted(plt, accepted, rules, bound)
        _draw_reach(plt, reach, rules)
        accepted.set_title(title)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _draw_accepted(plt: Any, axes: Any, rules: Sequence[PathsSummary], bound: Sequence[float]) -> None:
    for number, one in enumerate(rules):
        axes.errorbar(
            one.accepted.value,
            number,
            xerr=error_bars([(one.accepted.value, one.accepted.low, one.accepted.high)]),
            fmt="o",
            capsize=2,
            color=_colour(plt, number),
        )
    for value in bound:
        axes.axvline(value, color="0.4", linestyle="--", label="bound on lossless rules")
        axes.legend(fontsize=8)
    axes.set_yticks(range(len(rules)), [label(one) for one in rules])
    axes.set_ylim(len(rules) - 0.5, -0.5)
    axes.set_xlabel("accepted tokens of a tree, 95 % intervals over prompts")
    axes.grid(axis="x", alpha=0.3)


def _draw_reach(plt: Any, axes: Any, rules: Sequence[PathsSummary]) -> None:
    for number, one in enumerate(rules):
        depths = np.arange(1, len(one.reach) + 1)
        axes.plot(depths, one.reach, "o-", markersize=3, color=_colour(plt, number), label=label(one))
    axes.set_xlabel("drafted tokens")
    axes.set_ylabel("P(so many or more are accepted)")
    axes.set_ylim(0, 1)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.grid(alpha=0.3)
    if rules:
        axes.legend(fontsize=8)


def _colour(plt: Any, number: int) -> Any:
    return plt.get_cmap("tab20")(number % 20)
