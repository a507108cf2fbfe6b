"""The benchmark of rules on recorded trees: what each accepts of the same trees, exactly given each tree."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache, cached_property, partial
from typing import Any

import numpy as np

from otspec.bench.code import package_digest
from otspec.bench.paths.summary import PathsCell, paths_cell_of
from otspec.bench.records import Record, RecordFolder, Turns
from otspec.bench.schema import check_header
from otspec.data import TreeSource
from otspec.reporting.machine import processor, versions
from otspec.results import SolveError
from otspec.verification import PathVerifier, Tree
from otspec.verification.evaluation.losslessness import is_lossless
from otspec.verification.rules.catalogue import CHAIN, rule, verifier_of_paths


@dataclass(frozen=True, eq=False)
class PathsBenchmark:
    """What to measure."""

    sources: Mapping[str, TreeSource]
    """Files of trees, by the name that cells have for them."""
    rules: Sequence[str]
    """Spellings, as `otspec bench decode` takes them."""
    first: int | None = None
    """How many trees of each file, from the first on; by default all."""
    seed: int = 0
    """Of the verifications that are timed."""
    budget_s: float = 120.0
    """Time granted to each cell, in seconds; then it gets no more trees."""

    def __post_init__(self) -> None:
        for source in self.sources.values():
            check_header(source.about, source.path)
        for spelling in self.rules:
            verifier_of_paths(spelling)

    @property
    def identity(self) -> Mapping[str, object]:
        """What makes records comparable with each other."""
        code = {
            "python": platform.python_version(),
            "versions": versions("numpy", "scipy", "numba"),
            "code": package_digest(),
        }
        return {
            "benchmark": "paths",
            "data": {
                name: {**source.identity, "about": source.about, "measured_by": code}
                for name, source in self.sources.items()
            },
            "seed": self.seed,
            "budget_s": self.budget_s,
            "processor": processor(),
        }

    @cached_property
    def trees(self) -> list[tuple[str, int]]:
        """File and number of every tree."""
        return [
            (name, tree)
            for name, source in self.sources.items()
            for tree in range(len(source) if self.first is None else min(self.first, len(source)))
        ]

    @property
    def count(self) -> int:
        """Records to make."""
        return len(self.trees) * len(dict.fromkeys(self.rules))


def run(benchmark: PathsBenchmark, folder: RecordFolder, progress: Callable[[int], None] = lambda steps: None) -> None:
    """Measure what the folder does not hold yet, every rule on one tree before the next tree.

    A rule whose solver fails, or whose time is spent, gets no more trees.
    """
    verifiers = {spelling: verifier_of_paths(spelling) for spelling in benchmark.rules}
    lossless = {spelling: is_lossless(rule(spelling, CHAIN)) for spelling in verifiers}
    turns = Turns(
        folder, benchmark.budget_s, lambda one: (paths_cell_of(one), int(one["position"])), lambda one: one["spent_s"]
    )
    warm: set[PathsCell] = set()

    def measure(cell: PathsCell, index: int, source: TreeSource, tree: Callable[[], Tree], _left_s: float) -> Record:
        verifier = verifiers[cell.rule]
        if cell not in warm:  # nothing is compiled on the clock
            _figures(verifier, tree(), benchmark.seed)
            warm.add(cell)
        about = {"position": index, "prompt": source.prompt(index), "lossless": lossless[cell.rule]}
        return asdict(cell) | about | _figures(verifier, tree(), benchmark.seed + index) | {"machine": processor()}

    for name, index in benchmark.trees:
        source = benchmark.sources[name]
        tree = cache(partial(_tree, source, index))
        for spelling in verifiers:
            cell = PathsCell(name, spelling, source.paths, source.depth)
            turns.take(cell, index, partial(measure, cell, index, source, tree))
            progress(1)


def _tree(source: TreeSource, index: int) -> Tree:
    one = source.tree(index)
    return Tree.of(one.paths, one.target, one.draft)


def _figures(verifier: PathVerifier, tree: Tree, seed: int) -> dict[str, Any]:
    """What a rule accepts of a tree, over its own random numbers, and how long one verification takes."""
    started = time.perf_counter()
    found: dict[str, Any] = {"accepted": None, "reach": None, "wall_s": None, "message": ""}
    try:
        verifier.verify(tree, np.random.default_rng(seed))
        found["wall_s"] = time.perf_counter() - started
        found["reach"] = mean_reach(verifier, tree)
        found["accepted"] = sum(found["reach"])
    except SolveError as error:
        found["message"] = str(error)
    return found | {"spent_s": time.perf_counter() - started}


def mean_reach(verifier: PathVerifier, tree: Tree) -> list[float]:
    """P(at least 1, ..., L drafted tokens are accepted) given a tree, over the random numbers of the rule, exactly."""
    stopped = np.bincount(tree.depth, weights=verifier.stop_law(tree).sum(axis=1), minlength=tree.length + 1)
    reached: list[float] = np.cumsum(stopped[:0:-1])[::-1].tolist()
    return reached
