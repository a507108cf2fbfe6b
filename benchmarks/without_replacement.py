"""What drafting without replacement is worth, and what it costs to verify such drafts optimally.

    python -m benchmarks.without_replacement [--data llama3] [--positions 100] [--k 100,1000] [--n 2,3,4,8]
        [--solver release] [--json records.jsonl]
    python -m benchmarks.without_replacement --distinct [--k 1000] [--n 2,3,4]

q is truncated to top-k and renormalised, p is not.  A time is that of the whole solve, from the two laws on k + 1
compact tokens to the certified plan: sort, hit probabilities, blocks, rule, and the rule's exact law.  "i.i.d." is the
optimum for as many drafts drawn with replacement.

With --distinct, the n drafts are independent and come from n laws of their own, as from n draft models: the logits of
the target plus independent errors, of the size that the position has.  Any order of the tokens fails there, and the
certified gap of `polymatroid` after a given number of steps is shown.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
from rich.table import Table

import otspec
from benchmarks.measuring import distinct_problem, laws_of
from benchmarks.reporting import Record, asking
from otspec.catalogue import get
from otspec.data import Source, check_positions, open_source
from otspec.problem import Problem
from otspec.reporting.console import console, numbers, progress_bar
from otspec.schemes import IID, WithoutReplacement
from otspec.solver import Solver
from otspec.solvers import Polymatroid

GOAL = 1e-4
"""Gap that counts as good enough."""

STEPS = (10, 30, 100, 300)


def timed(problem: Problem, solver: Solver, repeats: int = 3) -> Record:
    """The best of a few solves, since others share the machine, with what the plan says about itself."""
    wall_s = np.inf
    for _ in range(repeats):
        fresh = replace(problem)  # keeps nothing from the solve before
        started = time.perf_counter()
        result = otspec.solve(fresh, solver, strict=False)
        wall_s = min(wall_s, time.perf_counter() - started)
    assert result.plan is not None, result.message
    plan = result.plan
    return {
        "solver": solver.name,
        "status": result.status.name,
        "wall_s": wall_s,
        "acceptance": plan.acceptance,
        "gap": plan.gap,
        "deviation": plan.deviation,
        **result.stats.sizes,
    }


def same_drafter(source: Source, positions: int, ks: list[int], ns: list[int], solver: Solver) -> Iterator[Record]:
    """Solve positions with drafts without replacement, one record each."""
    for k in ks:
        for index in range(positions):
            p, q = laws_of(source.position(index), k)
            for n in ns:
                problem = Problem(p, WithoutReplacement(q, n))
                iid = otspec.optimum(Problem(p, IID(q, n))).acceptance
                if index == 0:
                    timed(problem, solver)  # what is compiled or loaded at a first call is no cost of a solve
                yield {"k": k, "n": n, "position": index, "iid": iid, **timed(problem, solver)}


def distinct_drafters(source: Source, positions: int, ks: list[int], ns: list[int]) -> Iterator[Record]:
    """Solve positions with n independent drafts from n laws, over the k tokens likeliest to be put out."""
    for k in ks:
        for index in range(positions):
            for n in ns:
                problem = distinct_problem(source.position(index), k, n, seed=index)
                for steps in STEPS:
                    if index == 0:
                        timed(problem, Polymatroid(max_steps=2))
                    record = timed(problem, Polymatroid(max_steps=steps))
                    yield {"k": k, "n": n, "position": index, "max_steps": steps, **record}


def summary(records: list[Record]) -> Table:
    """A row for each setting."""
    limited = "max_steps" in records[0]
    optima = () if limited else ("alpha*", "alpha* i.i.d.")
    table = Table("(k, n)", *(("steps",) if limited else ()), *optima)
    for heading in ("ms median", "mean", "95 %", "max", "gap mean", "gap max", f"<= {GOAL:g}", "worst deviation"):
        table.add_column(heading, justify="right")
    for setting in dict.fromkeys((r["k"], r["n"], r.get("max_steps")) for r in records):
        rows = [r for r in records if (r["k"], r["n"], r.get("max_steps")) == setting]
        ms = np.array([r["wall_s"] for r in rows]) * 1e3
        gaps = np.array([r["gap"] for r in rows])
        cells = [f"({setting[0]}, {setting[1]})"]
        if limited:
            cells.append(f"{setting[2]}")
        else:
            bounds = [r["acceptance"] + r["gap"] for r in rows]
            cells += [f"{np.mean(bounds):.4f}", f"{np.mean([r['iid'] for r in rows]):.4f}"]
        times = (np.median(ms), ms.mean(), np.percentile(ms, 95), ms.max())
        table.add_row(
            *cells,
            *(f"{value:.3g}" for value in times),
            f"{max(gaps.mean(), 0):.0e}",
            f"{max(gaps.max(), 0):.0e}",
            f"{(gaps <= GOAL).mean():.2f}",
            f"{max(r['deviation'] for r in rows):.0e}",
        )
    return table


def main() -> None:
    """Print the table; with --json, write a line for each solve as well."""
    parser = asking("Drafts without replacement, or from distinct laws: optimum and cost.", "llama3", 100)
    parser.add_argument("--k", default=None, help="tokens that are drafted, as in 100,1000")
    parser.add_argument("--n", default=None, help="drafts, as in 2,3,4,8")
    parser.add_argument("--solver", default="release", help="release, or polymatroid:tol=1e-4")
    parser.add_argument("--distinct", action="store_true", help="independent drafts from n laws")
    parser.add_argument("--json", type=Path, help="file for one JSON line per solve")
    options = parser.parse_args()
    source = open_source(options.data)
    positions = check_positions(source, options.positions)
    ks = numbers("--k", options.k or ("1000" if options.distinct else "100,1000"))
    ns = numbers("--n", options.n or ("2,3,4" if options.distinct else "2,3,4,8"))
    total = positions * len(ks) * len(ns) * (len(STEPS) if options.distinct else 1)
    if options.distinct:
        solves = distinct_drafters(source, positions, ks, ns)
    else:
        solves = same_drafter(source, positions, ks, ns, get(options.solver))
    records: list[Record] = []
    with progress_bar() as progress, options.json.open("w") if options.json else nullcontext() as log:
        task = progress.add_task("solves", total=total)
        for record in solves:
            records.append({"data": source.name, **record})
            if log:
                log.write(json.dumps(records[-1]) + "\n")
                log.flush()
            progress.advance(task)
    records.sort(key=lambda record: (record["k"], record["n"], record.get("max_steps", 0), record["position"]))
    console.print(summary(records))


if __name__ == "__main__":
    main()
