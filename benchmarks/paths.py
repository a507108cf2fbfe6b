"""Measure how many tokens each joint verifier accepts, and how long it takes.

    python -m benchmarks.paths [--trees 200] [--walks 4] [--cells mixed:1000:8:4,...] [--out FILE] [--plot PICTURE]
    python -m benchmarks.paths --tiny       # small models, exactly, beside the bound on all verifiers
    python -m benchmarks.paths --growth     # time of one verified step against V, K and L

A cell is laws:V:L:K, the laws a regime of `otspec.paths.REGIMES` or `llama3` (that profile at V tokens, the drafts
truncated to the top 1000).  Every tree comes from a model of its own.  What a rule accepts that picks a path by a known
law is measured along texts of the same model, a few for each tree, and needs no tree; with --walks 0, and for all other
verifiers, accepted lengths are exact given the tree.  All verifiers meet the same trees and texts, and the standard
error of a gain is that of the differences.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.measuring import seconds
from benchmarks.reporting import appended
from otspec.catalogue import available
from otspec.data import PROFILES, ProfileSource
from otspec.paths import (
    REGIMES,
    Block,
    GreedyMultiPath,
    LayerVerification,
    Model,
    Nested,
    PathVerifier,
    PickRule,
    PickThenBlock,
    TokenWise,
    Traversal,
    Tree,
    bound,
    path_law,
    scattered,
    synthetic,
)
from otspec.reporting.charts import SERIES, Axis, Chart, Group, column_chart, line_chart
from otspec.reporting.means import standard_error
from otspec.reporting.pictures import Part, sheet
from otspec.reporting.style import Look, looks
from otspec.verification.evaluation.walking import Line, length_along, target_line

BASELINE = "token-wise interval"
CELLS = (
    "mixed:50:4:2,mixed:50:8:4,mixed:1000:4:4,mixed:1000:8:2,mixed:1000:8:4,"
    "close:1000:6:4,far:1000:6:4,sharp:1000:6:4,llama3:20000:4:4,llama3:20000:8:4"
)
TINY = ((2, 2, 2), (3, 2, 2), (3, 2, 3), (2, 3, 3), (3, 3, 2))
GROWTH = {
    "V": [(vocab, 8, 4) for vocab in (100, 300, 1000, 3000, 10_000, 20_000)],
    "K": [(1000, 8, count) for count in (1, 2, 4, 8, 16)],
    "L": [(1000, length, 4) for length in (1, 2, 4, 8, 16)],
}


class Cell(NamedTuple):
    """Where the laws come from, and the shape of the drafts."""

    laws: str
    vocab: int
    length: int
    paths: int

    @classmethod
    def parse(cls, text: str) -> Cell:
        """From laws:V:L:K."""
        laws, *sizes = text.split(":")
        if (laws not in REGIMES and laws not in PROFILES) or len(sizes) != 3:
            raise SystemExit(f"{text!r} is no cell laws:V:L:K; laws: {', '.join([*REGIMES, *PROFILES])}")
        return cls(laws, *map(int, sizes))

    def model(self, seed: int) -> Model:
        """A model of its own for every seed."""
        if self.laws in PROFILES:
            return scattered(ProfileSource(replace(PROFILES[self.laws], vocab=self.vocab)), seed, top_k=1000)
        return synthetic(self.laws, self.vocab, seed)

    def tree(self, seed: int) -> Tree:
        """The tree of that seed."""
        model = self.model(seed)
        return model.tree(model.sample(self.paths, self.length, np.random.default_rng((seed, 1))))

    def lines(self, seed: int, count: int) -> list[Line]:
        """So many texts of that seed's model."""
        return texts(self.model(seed), self.length, seed, count)


def verifiers(remember: int = 0) -> dict[str, PathVerifier]:
    """All verifiers by name; the published rules for single positions, where they are registered."""
    known = {info.name for info in available()}
    token_wise: dict[str, PathVerifier] = {
        f"token-wise {rule}": TokenWise(rule, remember, exchangeable=False) for rule in ("rrs", "kseq") if rule in known
    }
    return {
        "block, one path": Block(),
        **token_wise,
        BASELINE: TokenWise("interval", remember),
        "traversal": Traversal(),
        "layer": LayerVerification(remember=remember),
        "greedy multi-path": GreedyMultiPath(),
        "pick then block": PickThenBlock(),
        "nested, sigma = 0": Nested(sigma=0.0),
        "nested": Nested(),
    }


def texts(model: Model, length: int, seed: int, count: int) -> list[Line]:
    """Texts of a model's target."""
    rng = np.random.default_rng((seed, 2))
    return [target_line(model, length, rng) for _ in range(count)]


def accepted(verifier: PathVerifier, tree: Tree, lines: Sequence[Line] = ()) -> float:
    """Mean number of accepted tokens: along texts, where there are some and the rule allows it, or given the tree."""
    if lines and isinstance(verifier, PickRule):
        return float(np.mean([length_along(verifier, line, tree.shape) for line in lines]))
    return float(tree.depth @ verifier.stop_law(tree).sum(axis=1))


def measure(cell: Cell, trees: int, walks: int) -> Iterator[dict[str, Any]]:
    """A record for every verifier."""
    rules = verifiers()
    lengths: dict[str, list[float]] = {name: [] for name in rules}
    times: dict[str, list[float]] = {name: [] for name in rules}
    for seed in range(trees):
        tree, lines = cell.tree(seed), cell.lines(seed, walks)
        for name, rule in rules.items():
            lengths[name].append(accepted(rule, tree, lines))
            if seed < 20:
                rng = np.random.default_rng(seed)
                times[name].append(seconds(lambda rule=rule, tree=tree, rng=rng: rule.verify(tree, rng)))  # type: ignore[misc]
    base = np.array(lengths[BASELINE])
    for name in rules:
        mine = np.array(lengths[name])
        yield {
            **cell._asdict(),
            "verifier": name,
            "trees": trees,
            "walks": walks,
            "accepted": mine.mean(),
            "error": standard_error(mine),
            "gain": (mine - base).mean(),
            "gain_error": standard_error(mine - base),
            "ms": 1e3 * float(np.median(times[name])),
        }


def tiny(models: int) -> Iterator[dict[str, Any]]:
    """Small models, exactly, with the bound on all lossless verifiers."""
    for vocab, length, count in TINY:
        lengths: dict[str, list[float]] = {}
        for seed in range(models):
            model = synthetic("tiny", vocab, seed)
            for name, rule in verifiers(remember=5000).items():
                lengths.setdefault(name, []).append(path_law(rule, model, count, length).mean_accepted)
            lengths.setdefault("bound", []).append(bound(model, count, length))
        limit = np.array(lengths["bound"])
        for name, values in lengths.items():
            yield {
                "laws": "tiny",
                "vocab": vocab,
                "length": length,
                "paths": count,
                "verifier": name,
                "models": models,
                "accepted": float(np.mean(values)),
                "of_bound": float(np.mean(values) / limit.mean()),
                "worst": float((np.array(values) / limit).min()),
            }


def growth(trees: int) -> Iterator[dict[str, Any]]:
    """Milliseconds of one verified step, median over trees."""
    rules = {name: rule for name, rule in verifiers().items() if name != "traversal"}
    for axis, shapes in GROWTH.items():
        for vocab, length, count in shapes:
            drafted = [Cell("mixed", vocab, length, count).tree(seed) for seed in range(trees)]
            for name, rule in rules.items():
                rng = np.random.default_rng(0)
                rule.verify(drafted[0], rng)
                times = [seconds(lambda rule=rule, tree=tree, rng=rng: rule.verify(tree, rng)) for tree in drafted]  # type: ignore[misc]
                yield {
                    "axis": axis,
                    "vocab": vocab,
                    "length": length,
                    "paths": count,
                    "verifier": name,
                    "ms": 1e3 * float(np.median(times)),
                }


def show(records: list[dict[str, Any]], value: Callable[[dict[str, Any]], str], title: str) -> None:
    """A table of verifiers by cells."""
    names = list(dict.fromkeys(record["verifier"] for record in records))
    table = Table("laws V L K", *names, title=title)
    rows: dict[tuple[Any, ...], dict[str, str]] = {}
    for record in records:
        cell = (record.get("laws", "mixed"), record["vocab"], record["length"], record["paths"])
        rows.setdefault(cell, {})[record["verifier"]] = value(record)
    for cell, row in rows.items():
        table.add_row(" ".join(map(str, cell)), *(row.get(name, "-") for name in names))
    Console(width=170).print(table)


FIELDS = {"V": "vocab", "K": "paths", "L": "length"}
FIXED = {"V": "L = 8, K = 4", "K": "V = 1000, L = 8", "L": "V = 1000, K = 4"}
"""What stays the same where one size grows."""
TICKS = {"V": (100, 1000, 10_000), "K": (1, 2, 4, 8, 16), "L": (1, 2, 4, 8, 16)}
"""What is written at their axes."""


def plot(lengths: list[dict[str, Any]], times: list[dict[str, Any]], path: Path) -> None:
    """Accepted lengths by cell, and the growth of the time."""
    names = list(dict.fromkeys(record["verifier"] for record in lengths))
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
    cells = Axis(places=list(dict.fromkeys(row["x"] for row in rows)))
    accepted = column_chart(rows, cells, Axis("mean accepted length, tokens"), styles, height=300)
    groups = [Group("Accepted length", "Mean over trees, with one standard error.", [accepted], columns=1)]
    if times:
        note = "Milliseconds per verified step, median over trees."
        groups.append(Group("Time", note, [_growth(times, axis, styles) for axis in FIELDS], columns=3))
    sheet([Part("", styles, groups)]).save(path)


def _growth(times: list[dict[str, Any]], axis: str, styles: Mapping[str, Look]) -> Chart:
    """Time over V, K or L."""
    mine = [one for one in times if one["axis"] == axis]
    rows = [{SERIES: one["verifier"], "x": one[FIELDS[axis]], "y": one["ms"]} for one in mine]
    across = Axis(f"{axis} ({FIXED[axis]})", log=10 if axis == "V" else 2, ticks=TICKS[axis])
    return line_chart(rows, across, Axis("ms", log=10), styles)


def main() -> None:
    """Run what was asked for, write it as it is measured, and show it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", default=CELLS, help="laws:V:L:K, separated by commas")
    parser.add_argument("--trees", type=int, default=200, help="trees (models with --tiny) per cell")
    parser.add_argument("--walks", type=int, default=4, help="texts for each tree; 0: all rules on trees")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--growth", action="store_true")
    parser.add_argument("--out", type=Path, help="JSON lines, appended")
    parser.add_argument("--plot", type=Path, help="draw the records in --out")
    arguments = parser.parse_args()

    if arguments.plot:
        if arguments.out is None:
            parser.error("--plot draws the records in --out; name that file")
        stored = [json.loads(line) for line in arguments.out.read_text().splitlines()]
        plot([r for r in stored if "gain" in r], [r for r in stored if "axis" in r], arguments.plot)
        return
    if arguments.tiny:
        source = tiny(arguments.trees)
    elif arguments.growth:
        source = growth(arguments.trees)
    else:
        cells = [Cell.parse(text) for text in arguments.cells.split(",")]
        source = (record for cell in cells for record in measure(cell, arguments.trees, arguments.walks))
    records = list(appended(source, arguments.out))
    if arguments.tiny:
        show(records, lambda r: f"{r['accepted']:.4f} ({r['worst']:.3f})", "mean accepted length (worst / bound)")
    elif arguments.growth:
        show(records, lambda r: f"{r['ms']:.2f}", "ms per verified step")
    else:
        show(records, lambda r: f"{r['accepted']:.2f} ± {r['error']:.2f}", "mean accepted length")
        show(records, lambda r: f"{r['gain']:+.3f} ± {r['gain_error']:.3f}", f"gain over {BASELINE}")
        show(records, lambda r: f"{r['ms']:.2f}", "ms per verified step")


if __name__ == "__main__":
    main()
