"""How much any verifier of arithmetic codewords can accept, against i.i.d. paths of as many nodes.

    python -m benchmarks.arithmetic [--models 20]

Small models.  K arithmetic codewords are the paths at (theta + i) / K of nested intervals as long as q, from one
uniform theta.  The bound is that of `otspec.paths.bound`: the largest sum of A(v) with A(vx) <= A(v) p(x|v), and
A(S) <= P(the drafts meet S) for every set S of prefixes of which none begins another, here all of them in one program.
The number of i.i.d. paths is drawn, by a coin that sees nothing else, such that the mean number of nodes is that of
the codewords.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.optimize import linprog

from otspec.laws import FloatArray
from otspec.paths import Model, synthetic
from otspec.paths.enumeration import prefixes
from otspec.paths.tree import Prefix
from otspec.reporting.means import standard_error

CELLS = ((2, 3, 2), (2, 3, 3), (3, 2, 2), (3, 2, 3))
"""V, L, K."""
MOST_PATHS = 1000


class Intervals(NamedTuple):
    """Where the codewords of each prefix lie."""

    low: dict[Prefix, float]
    size: dict[Prefix, float]

    @classmethod
    def of(cls, model: Model, length: int) -> Intervals:
        """Nested intervals: the children of a prefix side by side, each q of its parent long."""
        low: dict[Prefix, float] = {(): 0.0}
        size: dict[Prefix, float] = {(): 1.0}
        for prefix in prefixes(np.size(model.draft(())), length - 1):
            at = low[prefix]
            for token, q in enumerate(np.asarray(model.draft(prefix)).tolist()):
                low[(*prefix, token)], size[(*prefix, token)] = at, size[prefix] * q
                at += size[prefix] * q
        return cls(low, size)

    def met_by_codewords(self, chosen: list[Prefix], count: int) -> float:
        """P(some of the codewords begins with one of the prefixes): the length of a union of arcs of a circle."""
        arcs = []
        for prefix in chosen:
            start, extent = self.low[prefix] * count % 1.0, min(self.size[prefix] * count, 1.0)
            arcs += [(start, min(start + extent, 1.0)), (0.0, start + extent - 1.0)]
        reached = covered = 0.0
        for start, end in sorted(arcs):
            covered += max(end - max(start, reached), 0.0)
            reached = max(reached, end)
        return covered

    def met_by_paths(self, chosen: list[Prefix], count: int) -> float:
        """The same for independent paths."""
        return float(1.0 - max(1.0 - sum(self.size[prefix] for prefix in chosen), 0.0) ** count)


def antichains(vocab: int, length: int, prefix: Prefix = ()) -> list[list[Prefix]]:
    """All sets of prefixes from here on of which none begins another."""
    if len(prefix) == length:
        return [[], [prefix]]
    below = itertools.product(*(antichains(vocab, length, (*prefix, token)) for token in range(vocab)))
    return [*([one for those in sets for one in those] for sets in below), [prefix]]


def limit(model: Model, length: int, sets: list[list[Prefix]], met: Callable[[list[Prefix]], float]) -> float:
    """The bound for drafts that meet sets of prefixes with these probabilities."""
    every = list(prefixes(np.size(model.draft(())), length))
    number = {prefix: place for place, prefix in enumerate(every)}
    rows, limits = [], []
    for prefix in every[1:]:
        row = np.zeros(len(every))
        row[number[prefix]], row[number[prefix[:-1]]] = 1.0, -np.asarray(model.target(prefix[:-1]))[prefix[-1]]
        rows.append(row)
        limits.append(0.0)
    for chosen in sets:
        if chosen and chosen != [()]:
            rows.append(np.isin(np.arange(len(every)), [number[prefix] for prefix in chosen]).astype(float))
            limits.append(met(chosen))
    bounds = [(1.0, 1.0), *[(0.0, 1.0)] * (len(every) - 1)]
    found = linprog(-np.ones(len(every)), A_ub=np.array(rows), b_ub=limits, bounds=bounds, method="highs")
    if found.fun is None:
        raise ArithmeticError(f"HiGHS found no optimum: {found.message}")
    return -float(found.fun) - 1.0


def compare(vocab: int, length: int, count: int, models: int) -> FloatArray:
    """Shape (models, 4): bounds for codewords, i.i.d. paths of as many nodes, i.i.d. paths of as many; their number."""
    sets, rows = antichains(vocab, length), []
    for seed in range(models):
        model = synthetic("tiny", vocab, seed)
        at = Intervals.of(model, length)
        nodes = sum(at.met_by_codewords([prefix], count) for prefix in at.size if prefix)

        def drawn(paths: int, at: Intervals = at) -> float:
            return sum(at.met_by_paths([prefix], paths) for prefix in at.size if prefix)

        def by_paths(paths: int, at: Intervals = at, model: Model = model) -> float:
            return limit(model, length, sets, lambda chosen: at.met_by_paths(chosen, paths))

        fewer = next(k for k in range(1, MOST_PATHS) if drawn(k + 1) >= nodes)
        more = (nodes - drawn(fewer)) / (drawn(fewer + 1) - drawn(fewer))
        equal = (1.0 - more) * by_paths(fewer) + more * by_paths(fewer + 1)
        codewords = limit(model, length, sets, lambda chosen, at=at: at.met_by_codewords(chosen, count))  # type: ignore[misc]
        rows.append((codewords, equal, by_paths(count), fewer + more))
    return np.array(rows)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=20, help="models a row")
    models = parser.parse_args().models
    table = Table("V L K", "codewords", "i.i.d., equal nodes", "their number", "i.i.d., K paths", "equal nodes, gain")
    for cell in CELLS:
        found = compare(*cell, models)
        mean, gain = found.mean(axis=0), found[:, 1] - found[:, 0]
        error = standard_error(gain)
        shown = (f"{mean[0]:.3f}", f"{mean[1]:.3f}", f"{mean[3]:.2f}", f"{mean[2]:.3f}")
        table.add_row(" ".join(map(str, cell)), *shown, f"{gain.mean():+.3f} ± {error:.3f}")
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
