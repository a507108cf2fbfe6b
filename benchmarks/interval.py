"""How fast is `interval`?  Ratios measured in one run, on calibrated positions.

    python -m benchmarks.interval [--positions 100] [--data llama3]

The yardstick is one default `np.argsort` of the same p/q array, timed beside every solve.  "solve" is the whole
compiled solver, laws in, certified plan out, in memory that is used again; "verify" is `otspec.verify`, drafts in,
token out; "plan" is `otspec.solve`, which also allocates a plan and lets it measure itself.
"""

from __future__ import annotations

import numpy as np
from rich.console import Console
from rich.table import Table

import otspec
from benchmarks.reporting import asking
from benchmarks.timing import laws_of, seconds
from otspec.data import Source, open_source
from otspec.kernels.interval.exchange import solve_and_certify
from otspec.kernels.interval.places import Sizes, empty_places, workspace
from otspec.laws import FloatArray, IntArray
from otspec.schemes import IID

NS = (2, 3, 4, 5, 10)
SHORT = (4, 3), (8, 2), (10, 2), (10, 4), (100, 2), (100, 4), (1000, 2), (1000, 4), (1000, 10), (10000, 4)


class Bench:
    """The timed calls for one pair of laws and one number of drafts."""

    def __init__(self, p: FloatArray, q: FloatArray, n: int) -> None:
        self.p, self.q, self.n = p, q, n
        self.ratio = p[q > 0] / q[q > 0]
        self.work, self.room = workspace(p.size), empty_places(p.size)
        self.problem = otspec.Problem(p, IID(q, n))
        self.rng = np.random.default_rng(0)
        self.drafts = self.problem.scheme.sample(self.rng)
        self.sizes, acceptance, bound = self.solve()
        self.gap = abs(bound - acceptance)

    def argsort(self) -> IntArray:
        """The yardstick."""
        return np.argsort(self.ratio)

    def solve(self) -> tuple[Sizes, float, float]:
        """The compiled solver; sizes, acceptance and bound."""
        return solve_and_certify(self.p, self.q, 1.0, 1.0, self.n, self.work, self.room)

    def verify(self) -> otspec.Verification:
        """One position, as a decoder calls it."""
        return otspec.verify(self.p, self.q, self.drafts, self.rng)

    def plan(self) -> otspec.Result:
        """Everything, with the plan and its figures."""
        return otspec.solve(self.problem)


def against_argsort(source: Source, positions: int) -> Table:
    """The whole vocabulary: ratios to one argsort."""
    table = Table("n", "argsort ms", "solve ms", "solve/argsort", "5-95 %", "verify ms", "plan ms", "worst |gap|")
    rows: dict[int, list[list[float]]] = {n: [] for n in NS}
    for index in range(positions):
        p, q = laws_of(source.position(index), compact=False)
        for n in NS:
            bench = Bench(p, q, n)
            calls = (bench.argsort, bench.solve, bench.verify, bench.plan)
            rows[n].append([*map(seconds, calls), bench.gap])
    for n in NS:
        argsort, solve, verify, plan, gap = np.array(rows[n]).T
        low, middle, high = np.percentile(solve / argsort, [5, 50, 95])
        table.add_row(
            *(f"{n}", f"{np.median(argsort) * 1e3:.2f}", f"{np.median(solve) * 1e3:.2f}", f"{middle:.2f}"),
            *(f"{low:.2f}-{high:.2f}", f"{np.median(verify) * 1e3:.2f}", f"{np.median(plan) * 1e3:.2f}"),
            f"{gap.max():.0e}",
        )
    return table


def truncated(source: Source, positions: int) -> Table:
    """Drafts truncated to top-k: on the k tokens and one for the rest, and on the laws over the whole vocabulary."""
    table = Table(
        "(k, n)", "argsort ms", "solve ms", "solve/argsort", "verify ms", "plan ms", "verify ms, all V", "worst |gap|"
    )
    for k, n in SHORT:
        rows = []
        for index in range(positions):
            bench = Bench(*laws_of(source.position(index), k), n)
            whole = Bench(*laws_of(source.position(index), k, compact=False), n)
            calls = (bench.argsort, bench.solve, bench.verify, bench.plan, whole.verify)
            rows.append([*map(seconds, calls), bench.gap])
        argsort, solve, *others, gap = np.array(rows).T
        table.add_row(
            *(f"({k}, {n})", f"{np.median(argsort) * 1e3:.3f}", f"{np.median(solve) * 1e3:.3f}"),
            *(f"{np.median(solve / argsort):.2f}", *(f"{np.median(times) * 1e3:.3f}" for times in others)),
            f"{gap.max():.0e}",
        )
    return table


def main() -> None:
    """Print the tables."""
    request = asking("The interval solver against one argsort.", "llama3", 100).parse_args()
    source, console = open_source(request.data), Console(width=110)
    console.print(against_argsort(source, request.positions))
    console.print(truncated(source, request.positions))


if __name__ == "__main__":
    main()
