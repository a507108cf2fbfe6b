"""What two smaller systems save over one maximum flow, for two drafts from laws of their own.

    python -m benchmarks.slackness [--data llama3] [--positions 20] [--k 10,50,100,200]

Times are processor time from the problem to the law of the output given one drafted tuple: for `max_flow` by way of the
certified plan, for `slackness` by way of H* and the one system that the tuple needs.  Both have the same engine; the
ratio is the median over positions of paired times.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

import otspec
from benchmarks.measuring import distinct_problem
from benchmarks.reporting import asking, show
from otspec.data import Source, check_positions, open_source
from otspec.laws import FloatArray, IntArray
from otspec.problem import Problem
from otspec.reporting.console import numbers
from otspec.reporting.tables import TextTable
from otspec.solvers import MaxFlow, Slackness


def measure(source: Source, positions: int, k: int) -> tuple[FloatArray, FloatArray, float]:
    """Seconds of `max_flow` and of `slackness` by position, and the largest gap of their plans."""
    solvers = (MaxFlow(), Slackness())
    times, gap = [], 0.0
    for index in range(positions):
        problem = distinct_problem(source.position(index), k, 2, seed=index)
        drafts = problem.scheme.sample(index)
        times.append((_seconds(_by_plan, problem, drafts), _seconds(Slackness().conditional, problem, drafts)))
        gap = max(gap, *(abs(otspec.solve(problem, solver).plan.gap) for solver in solvers))
    flow, slackness = np.array(times).T
    return flow, slackness, gap


def _by_plan(problem: Problem, drafts: IntArray) -> FloatArray:
    return otspec.solve(problem, MaxFlow()).plan.conditional(drafts)


def _seconds(answer: Callable[[Problem, IntArray], FloatArray], problem: Problem, drafts: IntArray) -> float:
    """Processor time, the best of a few runs after one that compiles."""
    answer(problem, drafts)
    times = []
    for _ in range(5):
        started = time.process_time()
        answer(problem, drafts)
        times.append(time.process_time() - started)
    return min(times)


def main() -> None:
    """Print the table."""
    parser = asking("Complementary slackness against maximum flow, for two drafters.", "llama3", 20)
    parser.add_argument("--k", default="10,50,100,200", help="tokens that are drafted, as in 10,100")
    options = parser.parse_args()
    source = open_source(options.data)
    rows: list[tuple[str, ...]] = []
    for k in numbers("--k", options.k):
        flow, slackness, gap = measure(source, check_positions(source, options.positions), k)
        times = (f"{1e3 * np.median(flow):.3g}", f"{1e3 * np.median(slackness):.3g}")
        rows.append((f"({k}, 2)", *times, f"{np.median(slackness / flow):.2f}", f"{gap:.0e}"))
    header = ("(k, n)", "max_flow ms", "slackness ms", "ratio", "largest gap")
    show(TextTable("Two drafts from laws of their own", header, rows, ""))


if __name__ == "__main__":
    main()
