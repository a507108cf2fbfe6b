"""How fast is `interval`?  Ratios measured in one run, on calibrated positions.

    python -m benchmarks.interval [--positions 100] [--data llama3] [--plot docs/interval_growth.png]

The yardstick is one default `np.argsort` of the same p/q array, timed beside every solve.  "solve" is the whole
compiled solver, laws in, certified plan out, in memory that is used again; "verify" is `otspec.verify`, drafts in,
token out; "plan" is `otspec.solve`, which also allocates a plan and lets it measure itself.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import numba
import numpy as np
from rich.console import Console
from rich.table import Table

import otspec
from benchmarks.measuring import laws_of, seconds
from benchmarks.reporting import asking
from otspec.catalogue import get
from otspec.data import Source, open_source
from otspec.extras import installed
from otspec.kernels.interval.exchange import (
    Sizes,
    certify,
    empty_places,
    measure_places,
    solve_and_certify,
    workspace,
)
from otspec.kernels.interval.ratio_sort import sort_by_ratio
from otspec.kernels.majorant import concave_blocks
from otspec.laws import FloatArray, IntArray
from otspec.reporting.charts import SERIES, Axis, Row, line_chart
from otspec.reporting.pictures import picture
from otspec.reporting.style import DASHES, GREY, MARKERS, Look, ordered
from otspec.schemes import IID
from otspec.warming import warm_up

NS = (2, 3, 4, 5, 10)
SHORT = ((10, 2), (10, 4), (100, 2), (100, 4), (1000, 2), (1000, 4), (1000, 10), (10000, 4))
RIVALS = ((10, 2), (10, 3), (10, 4), (100, 2), (100, 3), (1000, 2))
GROWTH_V = (1000, 4000, 16_000, 64_000, 128_256)
GROWTH_N = (1, 2, 4, 8, 16, 32, 64)
SORT = "argsort of p/q"


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

    def shares(self) -> FloatArray:
        """Share of `solve` that each stage takes: sort, measures, hull, certificate, and the rest, the lotteries."""
        work, room, k = self.work, self.room, self.sizes.tokens
        size, target = room.size[:k], work.target[:k]
        stages = (
            lambda: sort_by_ratio(self.p, self.q, 1.0, 1.0, work.keys, room.order, work.target, room.size),
            lambda: measure_places(size, self.n, work.density),
            lambda: concave_blocks(target, size, work.density, room.block, work.rise, work.run),
            lambda: certify(self.n, work, room, self.sizes),
        )
        parts = np.array([seconds(stage) for stage in stages]) / seconds(self.solve)
        return np.append(parts, max(1 - parts.sum(), 0.0))


def against_argsort(source: Source, positions: int) -> tuple[Table, Table]:
    """The whole vocabulary: ratios to one argsort, and where the time goes."""
    table = Table("n", "argsort ms", "solve ms", "solve/argsort", "5-95 %", "verify ms", "plan ms", "worst |gap|")
    profile = Table("n", "sort", "measures", "hull", "certificate", "lotteries", title="share of solve")
    rows: dict[int, list[list[float]]] = {n: [] for n in NS}
    shares: dict[int, list[FloatArray]] = {n: [] for n in NS}
    for index in range(positions):
        p, q = laws_of(source.position(index), compact=False)
        for n in NS:
            bench = Bench(p, q, n)
            calls = (bench.argsort, bench.solve, bench.verify, bench.plan)
            rows[n].append([*map(seconds, calls), bench.gap])
            shares[n].append(bench.shares())
    for n in NS:
        argsort, solve, verify, plan, gap = np.array(rows[n]).T
        low, middle, high = np.percentile(solve / argsort, [5, 50, 95])
        table.add_row(
            *(f"{n}", f"{np.median(argsort) * 1e3:.2f}", f"{np.median(solve) * 1e3:.2f}", f"{middle:.2f}"),
            *(f"{low:.2f}-{high:.2f}", f"{np.median(verify) * 1e3:.2f}", f"{np.median(plan) * 1e3:.2f}"),
            f"{gap.max():.0e}",
        )
        profile.add_row(f"{n}", *(f"{share:.0%}" for share in np.median(shares[n], axis=0)))
    return table, profile


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


def batches(source: Source, positions: int, n: int = 4) -> Table:
    """`solve_batch` on one thread and on all, float32 laws over the whole vocabulary."""
    pairs = [laws_of(source.position(index), compact=False) for index in range(positions)]
    P, Q = (np.array(side, dtype=np.float32) for side in zip(*pairs, strict=True))
    table = Table(
        "threads", "ms per position", "times one thread", title=f"solve_batch, {positions} positions, n = {n}"
    )
    alone = None
    for threads in sorted({1, numba.get_num_threads()}):
        numba.set_num_threads(threads)
        otspec.solve_batch(P, Q, n)
        took = seconds(lambda: otspec.solve_batch(P, Q, n)) / positions
        alone = alone or took
        table.add_row(f"{threads}", f"{took * 1e3:.2f}", f"{alone / took:.2f}")
    return table


def rivals(source: Source, positions: int, budget: float) -> Table:
    """Other solvers on the same problems, as multiples of the time of `interval`, both through `otspec.solve`."""
    table = Table("(k, n)", "solver", "positions", "solved", "median ms", "times interval")
    names = [info.name for info in otspec.available() if info.name in ("global_resolution", "max_flow", "lp")]
    for k, n in RIVALS:
        for name in names:
            if not all(map(installed, get(name).packages)):
                continue
            warm_up(get(name), n)
            times: list[tuple[float, float]] = []
            solved = 0
            started = time.perf_counter()
            for index in range(positions):
                bench = Bench(*laws_of(source.position(index), k), n)
                began = time.perf_counter()
                delivered = otspec.solve(bench.problem, name, strict=False).success
                took = time.perf_counter() - began
                solved += delivered
                times.append((took, seconds(bench.plan, repeats=1)))  # as often as the rival, not the best of more
                if time.perf_counter() - started > budget:
                    break
            theirs, ours = np.array(times).T
            table.add_row(
                *(f"({k}, {n})", name, f"{len(times)}", f"{solved}", f"{np.median(theirs) * 1e3:.3g}"),
                f"{np.median(theirs / ours):.3g}" if solved else "refused",
            )
    return table


def growth(source: Source, positions: int, path: Path) -> None:
    """Draw time against the vocabulary and against n, beside the argsort."""
    largest = f"solve, V = {source.vocab}"
    solves = ordered(["solve, n = 2", "solve, n = 10"])
    styles = {SORT: Look(GREY, MARKERS[0], DASHES[1]), **solves, largest: Look("blue", MARKERS[0])}
    ms = "ms, median over positions"
    by_size = line_chart(
        list(_over_size(source, positions, [SORT, *solves])),
        Axis("tokens V", log=10, ticks=GROWTH_V, form="~s"),
        Axis(ms, log=10),
        styles,
    )
    by_drafts = line_chart(
        list(_over_drafts(source, positions, [SORT, largest])),
        Axis("drafts n", log=2, ticks=GROWTH_N),
        Axis(ms, zero=True),
        styles,
    )
    picture([by_size, by_drafts], styles).save(path)


def _over_size(source: Source, positions: int, names: list[str]) -> Iterator[Row]:
    """Milliseconds of the argsort and of solves for 2 and 10 drafts, for parts of the vocabulary."""
    rng = np.random.default_rng(0)
    for vocab in GROWTH_V:
        rows = []
        for index in range(positions):
            p, q = laws_of(source.position(index), compact=False)
            kept = rng.permutation(p.size)[:vocab]
            few, many = (Bench(p[kept] / p[kept].sum(), q[kept] / q[kept].sum(), n) for n in (2, 10))
            rows.append([seconds(call) * 1e3 for call in (few.argsort, few.solve, many.solve)])
        for name, value in zip(names, np.median(rows, axis=0), strict=True):
            yield {SERIES: name, "x": vocab, "y": float(value)}


def _over_drafts(source: Source, positions: int, names: list[str]) -> Iterator[Row]:
    """Milliseconds of the argsort, and of solves of the whole vocabulary, for each number of drafts."""
    rows = []
    for index in range(positions):
        benches = [Bench(*laws_of(source.position(index), compact=False), n) for n in GROWTH_N]
        rows.append([seconds(call) * 1e3 for call in (benches[0].argsort, *(bench.solve for bench in benches))])
    argsort, *solves = np.median(rows, axis=0)
    for n, value in zip(GROWTH_N, solves, strict=True):
        yield {SERIES: names[0], "x": n, "y": float(argsort)}
        yield {SERIES: names[1], "x": n, "y": float(value)}


def main() -> None:
    """Print the tables, and draw the picture if asked to."""
    parser = asking("The interval solver against one argsort, and against other solvers.", "llama3", 100)
    parser.add_argument("--budget", type=float, default=20.0, help="seconds per rival and setting")
    parser.add_argument("--plot", type=Path, help="picture of the growth with V and n")
    options = parser.parse_args()
    source = open_source(options.data)
    console = Console(width=110)
    for table in against_argsort(source, options.positions):
        console.print(table)
    console.print(truncated(source, options.positions))
    console.print(batches(source, min(options.positions, 16)))
    console.print(rivals(source, min(options.positions, 20), options.budget))
    if options.plot:
        growth(source, min(options.positions, 15), options.plot)


if __name__ == "__main__":
    main()
