"""The picture of the decoding benchmark: block efficiency, where the time goes, and what that comes to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from otspec.bench.decoding_report import by_rule, label, shapes
from otspec.bench.decoding_summary import DecodingSummary
from otspec.bench.intervals import Estimate
from otspec.decode.base.metrics import Metrics
from otspec.laws import FloatArray
from otspec.reporting.plotting import error_bars, fill, label_lines, line, picture
from otspec.reporting.style import LIGHT, looks


def plot_decoding(summaries: Sequence[DecodingSummary], title: str, path: Path) -> None:
    """Draw a row for each temperature: block efficiency by K and L; time per token by phase; speed-ups.

    Times and speed-ups are those of the largest K, and of all methods without one.
    """
    shown = [one for one in summaries if one.prompts]
    rows = [[one for one in shown if one.cell.temperature == at] for at in dict.fromkeys(_temperatures(shown))]
    heights = [max(5.0, 0.3 * len(_bars(row)) + 1.5) for row in rows]
    with picture(path, 16, sum(heights)) as figure:
        for part, row in zip(np.atleast_1d(figure.subfigures(len(rows), 1, height_ratios=heights)), rows, strict=True):
            part.suptitle(f"Temperature {row[0].cell.temperature:g}; {title}")
            efficiencies, times, speed_ups = part.subplots(1, 3, width_ratios=(1.1, 1, 1))
            _draw_efficiencies(efficiencies, row)
            _draw_times(times, _bars(row))
            _draw_speed_ups(speed_ups, _bars(row))


def _temperatures(summaries: Sequence[DecodingSummary]) -> list[float]:
    return [one.cell.temperature for one in summaries]


def _bars(summaries: Sequence[DecodingSummary]) -> list[DecodingSummary]:
    """The cells of the largest K and those that have none, the fastest first."""
    most = max((one.cell.paths for one in summaries), default=1)
    shown = [one for one in summaries if one.cell.paths in (0, 1, most)]
    return sorted(shown, key=lambda one: sum(one.ms_per_token.values()))


def _draw_efficiencies(axes: Any, summaries: Sequence[DecodingSummary]) -> None:
    settings = shapes(summaries)
    depths = {depth for _, depth in settings}
    several = [mine for mine in by_rule(summaries) if mine[0].cell.paths > 1]
    few = [one for one in summaries if one.cell.paths < 2 and one.cell.depth]  # without drafts it is 1
    styles = looks([*(label(mine[0]) for mine in several), *(_label(one, few) for one in few)])
    for number, mine in enumerate(several):
        shift = 0.3 * ((number + 0.5) / len(several) - 0.5)
        name = label(mine[0])
        style = line(styles[name]) | ({} if len(depths) == 1 else {"linestyle": "none"})
        axes.errorbar(
            [settings.index((one.cell.paths, one.cell.depth)) + shift for one in mine],
            [one.efficiency.value for one in mine],
            yerr=_bars_of([one.efficiency for one in mine]),
            label=name,
            **style,
        )
    for one in few:
        look = styles[_label(one, few)]
        low, high = (np.nan_to_num(end, nan=one.efficiency.value) for end in (one.efficiency.low, one.efficiency.high))
        axes.axhspan(low, high, color=look.colour(), alpha=0.1, linewidth=0)
        style = line(look) | {"marker": "", "linewidth": 1, "label": _label(one, few)}
        axes.plot([-0.5, max(len(settings), 1) - 0.5], [one.efficiency.value] * 2, **style)
    axes.set_xticks(range(len(settings)), [f"K = {k}" + (f"\nL = {d}" if len(depths) > 1 else "") for k, d in settings])
    axes.set_ylabel("block efficiency: tokens per target call")
    axes.set_title("Block efficiency, 95 % intervals")
    axes.grid(visible=False, axis="x")
    axes.set_xlim(-0.5, max(len(settings), 1) - 0.5)
    if several or few:
        below = (0.5, -0.08 if len(depths) == 1 else -0.13)
        label_lines(axes, ncols=2, loc="upper center", bbox_to_anchor=below)


def _draw_times(axes: Any, bars: Sequence[DecodingSummary]) -> None:
    start = np.zeros(len(bars))
    for phase, look in looks(Metrics().seconds).items():
        spent = np.array([one.ms_per_token[phase] for one in bars])
        axes.barh(range(len(bars)), spent, left=start, label=phase, **fill(look))
        start += spent
    axes.set_yticks(range(len(bars)), [_label(one, bars) for one in bars])
    axes.set_ylim(len(bars) - 0.5, -0.5)
    axes.set_xlabel("milliseconds per token, prompts included")
    axes.set_title("Where the time goes" + _largest(bars))
    axes.grid(visible=False, axis="y")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=5)


def _draw_speed_ups(axes: Any, bars: Sequence[DecodingSummary]) -> None:
    """Speed-ups over transformers' own loop and over ours without drafts, cell by cell, as the times beside them."""
    for (name, look), shift in zip(looks(("generate", "vanilla")).items(), (-0.12, 0.12), strict=True):
        found = [
            (at + shift, estimate)
            for at, one in enumerate(bars)
            for cell, estimate in one.speed_ups.items()
            if cell.method == name
        ]
        if found:
            places, estimates = zip(*found, strict=True)
            axes.errorbar(
                [one.value for one in estimates],
                places,
                xerr=_bars_of(estimates),
                label=f"over {name}",
                **line(look) | {"linestyle": "none"},
            )
    axes.axvline(1, color=LIGHT.grey, linewidth=1, linestyle="--", label="no difference")
    axes.set_ylim(len(bars) - 0.5, -0.5)
    axes.set_yticks(range(len(bars)), [])
    axes.set_xlabel("times as fast, 95 % intervals")
    axes.set_title("Speed-up" + _largest(bars))
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=3)


def _largest(bars: Sequence[DecodingSummary]) -> str:
    most = max((one.cell.paths for one in bars), default=0)
    return f", K = {most}" if most > 1 else ""


def _label(one: DecodingSummary, among: Sequence[DecodingSummary]) -> str:
    """What a cell is called, with its L where that is not all of the difference."""
    depths = {other.cell.depth for other in among if label(other) == label(one)}
    return label(one) + (f", L = {one.cell.depth}" if len(depths) > 1 else "")


def _bars_of(estimates: Sequence[Estimate]) -> FloatArray:
    """Lengths of error bars below and above; none where there is no interval."""
    return error_bars([(one.value, one.low, one.high) for one in estimates])
