"""Does `earliest_deadline` earn its place?  Against maximum flow on the same draft sets, from laws to certificate.

    python -m benchmarks.earliest_deadline [--positions 9]

Two sources: positions of the llama3 profile, and laws that differ by 10 %, where nearly every token is tight.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

from benchmarks.measuring import laws_of
from benchmarks.reporting import show
from otspec import Problem, Systematic
from otspec.certificate import transport_network
from otspec.data import open_source
from otspec.kernels.max_flow import min_cut
from otspec.laws import FloatArray
from otspec.plans.segment_rule import optimal_segment_rule
from otspec.reporting.tables import TextTable

Source = Callable[[int, int], tuple[FloatArray, FloatArray]]


def main() -> None:
    """Print one table of medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--positions", type=int, default=9)
    positions = parser.parse_args().positions
    rows: list[tuple[str, ...]] = []
    for name, source in (("llama3", profile), ("close", close)):
        for tokens in (100, 1000, 10_000, 100_000):
            for n in (2, 4):
                ours, theirs = np.median([both(*source(i, tokens), n) for i in range(-1, positions)][1:], axis=0) * 1e3
                rows.append((name, str(tokens), str(n), f"{ours:.3g}", f"{theirs:.3g}", f"{theirs / ours:.2g}"))
    header = ("laws", "tokens", "n", "earliest deadline ms", "max flow ms", "ratio")
    show(TextTable("Earliest deadline against maximum flow", header, rows, "Medians.", labels=1))


def both(p: FloatArray, q: FloatArray, n: int) -> tuple[float, float]:
    """Seconds that either takes, each on a scheme of its own, for a scheme keeps what it has listed."""
    problem, again = (Problem(p, Systematic(q, n)) for _ in range(2))
    started = time.perf_counter()
    optimal_segment_rule(problem.p, problem.scheme)  # type: ignore[arg-type]  # Systematic
    swept = time.perf_counter()
    min_cut(transport_network(again, again.scheme.draft_sets()))
    return swept - started, time.perf_counter() - swept


def profile(index: int, tokens: int) -> tuple[FloatArray, FloatArray]:
    """A position of llama3, drafts truncated to so many tokens."""
    return laws_of(open_source("llama3", 0).position(max(index, 0)), tokens)


def close(index: int, tokens: int) -> tuple[FloatArray, FloatArray]:
    """Exponential weights, and the same with noise."""
    rng = np.random.default_rng([max(index, 0), tokens])
    q = rng.dirichlet(np.ones(tokens))
    p = q * np.exp(rng.normal(scale=0.1, size=tokens))
    return p / p.sum(), q


if __name__ == "__main__":
    main()
