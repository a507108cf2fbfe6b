"""The picture of a run: Figures 4 and 5 of [berdozsteering], acceptance by depth, and what old steering is worth."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.drafters.plan import Learner, Plan
from benchmarks.drafters.tables import CHAIN, GREEDY, by_offset, by_window, held_out, of_way, reach, taus
from benchmarks.reporting import Record
from otspec.reporting.plotting import fill, label_lines, line, picture
from otspec.reporting.style import GREY, Look, colour, looks

BEGUN = {"shipped": "shipped draft", "plain": "plain, 1 layer", "deep": "deep, 4 layers", "target": "of the target"}


def draw(plan: Plan, records: Sequence[Record], path: Path) -> None:
    """Four panels."""
    there = [one for one in plan.learners if of_way(records, one.name, CHAIN)]
    styles = looks(dict.fromkeys(one.kind for one in there))
    with picture(path, 11, 7.5) as figure:
        grid = figure.subplots(2, 2)
        _accepted(grid[0, 0], there, records, styles)
        _depths(grid[0, 1], [one for one in there if one.start in ("shipped", "target")], records, styles)
        _positions(grid[1, 0], [one for one in there if one.start == "plain"], records, styles)
        _offsets(grid[1, 1], there, records)


def _accepted(axes: Any, there: Sequence[Learner], records: Sequence[Record], styles: dict[str, Look]) -> None:
    """Figure 5: accepted drafts a step, solid at T = 1, pale at T = 0."""
    starts = list(dict.fromkeys(one.start for one in there))
    at, ticks = 0.0, []
    for start in starts:
        mine = [one for one in there if one.start == start]
        ticks.append(at + (len(mine) - 1) / 2)
        for one in mine:
            for way, shift, alpha in ((CHAIN, -0.2, 1.0), (GREEDY, 0.2, 0.45)):
                values = np.array(taus(records, one.name, way)) - 1
                error = values.std(ddof=1) if values.size > 1 else 0.0
                named = one.kind if way is CHAIN and one.kind not in axes.get_legend_handles_labels()[1] else None
                style = fill(styles[one.kind])
                axes.bar(at + shift, values.mean(), 0.4, yerr=error, alpha=alpha, label=named, **style)
            at += 1
        at += 0.7
    axes.set_xticks(ticks, [BEGUN[start] for start in starts])
    axes.set_title("Accepted drafts a step (pale: temperature 0)")
    axes.set_ylim(0, 1.25 * axes.get_ylim()[1])  # room for the legend
    axes.grid(axis="x", visible=False)
    axes.legend(ncols=4, loc="upper left")


def _depths(axes: Any, mine: Sequence[Learner], records: Sequence[Record], styles: dict[str, Look]) -> None:
    for one in mine:
        shares = reach(records, one.name, CHAIN)
        axes.plot(range(1, len(shares) + 1), shares, label=one.kind, **line(styles[one.kind]))
    axes.set_title("Share of steps that accept so many drafts (shipped, of the target)")
    axes.set_xlabel("drafts")
    axes.set_ylim(bottom=0)
    label_lines(axes)


def _positions(axes: Any, mine: Sequence[Learner], records: Sequence[Record], styles: dict[str, Look]) -> None:
    """Figure 4."""
    for one in mine:
        found = by_window(records, one.name)
        axes.plot(list(found), list(found.values()), label=one.kind, **line(styles[one.kind]))
    axes.set_title("Accepted drafts a step by position in the text (plain, 1 layer)")
    axes.set_xlabel("position of the window's middle")
    axes.set_ylim(bottom=0)
    label_lines(axes)


def _offsets(axes: Any, there: Sequence[Learner], records: Sequence[Record]) -> None:
    """What steering adds to distillation, by how old it is."""
    steered = [one for one in there if one.kind == "sd2"]
    shades = looks(one.start for one in steered)
    for one in steered:
        base = next((other.name for other in there if other[:2] == (one.start, "distilled")), "")
        without = held_out(records, base)
        if without is not None:
            gains = [each - without for each in by_offset(records, one.name)]
            axes.plot(range(1, len(gains) + 1), gains, label=BEGUN[one.start], **line(shades[one.start]))
    axes.axhline(0, color=colour(GREY), linewidth=0.8)
    axes.set_title("Held-out acceptance of steered drafts less that of distilled ones")
    axes.set_xlabel("tokens since the target was heard")
    label_lines(axes)
