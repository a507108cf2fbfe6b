"""How many tokens each rule accepts of K paths from the root, and how long it takes.

What a rule accepts that picks a path by a known law is measured along texts of the same model, a few for each tree, and
needs no tree; without texts, and for all other rules, accepted lengths are exact given the tree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated

import altair as alt
import numpy as np
import typer

from benchmarks.comparing import compared
from benchmarks.measuring import seconds
from benchmarks.path_rules.grid import NESTED, PLACE, TOKEN_WISE, Cell, Rules, rules_of, verifier_of
from benchmarks.path_rules.lengths import accepted
from benchmarks.questions import Out, Question, answer
from benchmarks.reporting import Record
from benchmarks.tables import gain_over, pivot, with_error
from otspec.paths import PathVerifier, Tree
from otspec.reporting.charts import Axis, Group, column_chart, line_chart
from otspec.reporting.means import SERIES
from otspec.reporting.pictures import Part, Picture, sheet
from otspec.reporting.style import Look, looks
from otspec.reporting.tables import TextTable

PUBLISHED = (
    *("block", "token-wise rrs", "token-wise kseq", TOKEN_WISE, "traversal", "layer"),
    *("greedy multi-path", "nested, sigma = 0", NESTED),
)
CELLS = (
    "mixed:50:4:2,mixed:50:8:4,mixed:1000:4:4,mixed:1000:8:2,mixed:1000:8:4,"
    "close:1000:6:4,far:1000:6:4,sharp:1000:6:4,llama3:20000:4:4,llama3:20000:8:4"
)
GROWTH = {
    "V": [(vocab, 8, 4) for vocab in (100, 300, 1000, 3000, 10_000, 20_000)],
    "K": [(1000, 8, count) for count in (1, 2, 4, 8, 16)],
    "L": [(1000, length, 4) for length in (1, 2, 4, 8, 16)],
}
TIMED = 20
"""Trees of a cell on which the rules are timed."""

Cells = Annotated[str, typer.Option(help="Cells laws:V:L:K, a list.")]
Trees = Annotated[int, typer.Option(min=1, help="Trees of each cell.")]


def paths(
    cells: Cells = CELLS,
    trees: Trees = 200,
    walks: Annotated[int, typer.Option(min=0, help="Texts for each tree; 0: all rules on trees.")] = 4,
    rule: Rules = None,
    out: Out = None,
) -> None:
    """Accepted length of every rule on K paths, and milliseconds of a verified step."""
    names = rule or PUBLISHED
    asked = [Cell.parse(text) for text in cells.split(",")]
    answer(PATHS, (one for cell in asked for one in lengths(cell, trees, walks, names, TOKEN_WISE)), out)


def paths_growth(trees: Trees = 200, out: Out = None) -> None:
    """How the time of a verified step grows with V, K and L; its records go to those of `paths`."""
    answer(PATHS, growth(trees), out)


def lengths(cell: Cell, trees: int, walks: int, names: Sequence[str], over: str) -> Iterator[Record]:
    """A record for every rule: what it accepts, what it gains over another, and its time."""
    rules = rules_of(names)
    found: dict[str, list[float]] = {name: [] for name in rules}
    times: dict[str, list[float]] = {name: [] for name in rules}
    for seed in range(trees):
        tree, lines = cell.tree(seed), cell.lines(seed, walks)
        for name, rule in rules.items():
            found[name].append(accepted(rule, tree, lines))
            if seed < TIMED:
                times[name].append(_step(rule, tree, np.random.default_rng(seed)))
    figures = compared({name: np.array(values) for name, values in found.items()}, (over,))
    for name, mine in figures.items():
        place = {**cell._asdict(), "verifier": name, "trees": trees, "walks": walks}
        yield {**place, **mine, "ms": 1e3 * float(np.median(times[name]))}


def growth(trees: int) -> Iterator[Record]:
    """Milliseconds of one verified step, median over trees."""
    rules = rules_of([name for name in PUBLISHED if name != "traversal"])
    for axis, shapes in GROWTH.items():
        for vocab, length, count in shapes:
            cell = Cell("mixed", vocab, length, count)
            drafted = [cell.tree(seed) for seed in range(trees)]
            for name, rule in rules.items():
                rng = np.random.default_rng(0)
                rule.verify(drafted[0], rng)
                times = [_step(rule, tree, rng) for tree in drafted]
                yield {**cell._asdict(), "axis": axis, "verifier": name, "ms": 1e3 * float(np.median(times))}


def _step(rule: PathVerifier, tree: Tree, rng: np.random.Generator) -> float:
    """Seconds of one verification."""
    return seconds(lambda: rule.verify(tree, rng))


def tables(records: Sequence[Record]) -> list[TextTable]:
    """Rules by cells: lengths, gains and times."""
    measured = [one for one in records if "gains" in one]
    sized = [one for one in records if "axis" in one]
    found = [_table("Mean accepted length", measured, lambda r: with_error(r["accepted"], r["error"]))]
    found += [_gains(base, measured) for base in dict.fromkeys(base for one in measured for base in one["gains"])]
    found.append(_table("Milliseconds of a verified step", measured, lambda r: f"{r['ms']:.2f}"))
    found.append(_table("Milliseconds of a verified step, by size", sized, lambda r: f"{r['ms']:.2f}"))
    return found


def _gains(base: str, records: Sequence[Record]) -> TextTable:
    return _table(f"Gain over {base}", records, gain_over(base, ".3f"))


def _table(title: str, records: Sequence[Record], value: Callable[[Record], str]) -> TextTable:
    return pivot(title, records, PLACE, verifier_of, value)


FIELDS = {"V": "vocab", "K": "paths", "L": "length"}
FIXED = {"V": "L = 8, K = 4", "K": "V = 1000, L = 8", "L": "V = 1000, K = 4"}
"""What stays the same where one size grows."""
TICKS = {"V": (100, 1000, 10_000), "K": (1, 2, 4, 8, 16), "L": (1, 2, 4, 8, 16)}
"""What is written at their axes."""


def picture(records: Sequence[Record]) -> Picture:
    """Accepted lengths by cell, and the growth of the time."""
    lengths = [one for one in records if "gains" in one]
    times = [one for one in records if "axis" in one]
    names = list(dict.fromkeys(map(verifier_of, [*lengths, *times])))
    found = looks(sorted(names))  # so that of several settings of a rule the shortest name has the plain look
    styles = {name: found[name] for name in names}
    rows = [
        {
            SERIES: one["verifier"],
            "x": "{laws}\nV {vocab}\nL {length}, K {paths}".format(**one),
            "y": one["accepted"],
            "low": one["accepted"] - one["error"],
            "high": one["accepted"] + one["error"],
        }
        for one in lengths
    ]
    groups = []
    if rows:
        cells = Axis(places=list(dict.fromkeys(str(row["x"]) for row in rows)))
        chart = column_chart(rows, cells, Axis("mean accepted length, tokens"), styles, height=300)
        groups.append(Group("Accepted length", "Mean over trees, with one standard error.", [chart], columns=1))
    if times:
        note = "Milliseconds per verified step, median over trees."
        groups.append(Group("Time", note, [_growth(times, axis, styles) for axis in FIELDS], columns=3))
    return sheet([Part("", styles, groups)])


def _growth(times: Sequence[Record], axis: str, styles: Mapping[str, Look]) -> alt.LayerChart:
    """Time over V, K or L."""
    mine = [one for one in times if one["axis"] == axis]
    rows = [{SERIES: one["verifier"], "x": one[FIELDS[axis]], "y": one["ms"]} for one in mine]
    across = Axis(f"{axis} ({FIXED[axis]})", log=10 if axis == "V" else 2, ticks=TICKS[axis])
    return line_chart(rows, across, Axis("ms", log=10), styles)


PATHS = Question(
    "paths", (paths, paths_growth), ("laws", "vocab", "length", "paths", "verifier", "axis"), tables, picture
)
