"""The drafts of [thomas2025global, Table 5]: `global_resolution` beside the programs and the solver of choice.

    python -m benchmarks.global_resolution.other_laws [--positions 40] [--data llama3]

The second drafter is the first one at twice its temperature.  Every solver is timed, as by `otspec bench`, to the
law of the output given one drafted tuple.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

import numpy as np

import otspec
from benchmarks.reporting import Record, asking, show
from benchmarks.timing import laws_of
from otspec.catalogue import get
from otspec.data import open_source
from otspec.laws import IntArray
from otspec.problem import Problem
from otspec.reporting.means import group_by
from otspec.reporting.tables import NOTHING, TextTable
from otspec.schemes.catalogue import OWN
from otspec.solver import Solver, Stopped, TupleSolver
from otspec.solving import default_solver

SETTINGS: Mapping[str, Sequence[tuple[int, int]]] = {
    "iid": ((10, 2), (10, 3), (100, 2)),
    "without_replacement": ((10, 2), (10, 3), (100, 2)),
    "independent": ((10, 2), (100, 2)),
}
"""Draft laws, by their names in `otspec.schemes.catalogue`, and tokens and drafts, (k, n)."""
SOLVERS = ("lp", "max_flow", "global_resolution", "global_resolution:tau=1e-4", "")
"""The last one is the solver of choice."""


def main() -> None:
    """Measure and print."""
    request = asking(__doc__, "llama3", 40).parse_args()
    source, records = open_source(request.data), list[Record]()
    for law, settings in SETTINGS.items():
        for k, n in settings:
            for index in range(request.positions):
                p, q = laws_of(source.position(index), k)
                qs = np.stack((q, np.sqrt(q) / np.sqrt(q).sum())) if law == "independent" else q
                drafts = OWN[law](qs, n).sample(index)
                for spelling in SOLVERS:
                    problem = Problem(p, OWN[law](qs, n))  # a new one: schemes remember what they computed
                    solver = spelling or default_solver(problem)
                    if index == 0:
                        answer(Problem(p, OWN[law](qs, n)), drafts, get(solver))  # compiles
                    record: Record = {"law": law, "k": k, "n": n, "position": index, "solver": solver}
                    started = time.perf_counter()
                    record["solved"] = answer(problem, drafts, get(solver))
                    record["wall_s"] = time.perf_counter() - started
                    plan = otspec.solve(problem, solver, strict=False).plan
                    record |= {name: getattr(plan, name, None) for name in ("acceptance", "deviation")}
                    records.append(record)
    show(table(records))


def answer(problem: Problem, drafts: IntArray, solver: Solver) -> bool:
    """Solve for the law of the output given the drafts; whether that succeeds."""
    if isinstance(solver, TupleSolver):
        with suppress(Stopped):
            solver.conditional(problem, drafts)
            return True
        return False
    result = otspec.solve(problem, solver, strict=False)
    if result.plan is not None:
        result.plan.conditional(drafts)
    return result.success


def table(records: list[Record]) -> TextTable:
    """A row for each solver at each setting of each draft law; figures are those of the positions with a whole plan."""
    best = {(r["law"], r["k"], r["n"], r["position"]): r["acceptance"] for r in records if r["solver"] == "lp"}
    rows: list[tuple[str, ...]] = []
    for (law, k, n, solver), mine in group_by(records, lambda r: (r["law"], r["k"], r["n"], r["solver"])).items():
        plans = [record for record in mine if record["acceptance"] is not None]
        figures: tuple[str, ...] = (NOTHING,) * 4
        if plans:
            found = np.array([record["acceptance"] for record in plans])
            optimal = np.array([best[law, k, n, record["position"]] for record in plans])
            apart, deviation = np.abs(found - optimal).max(), max(record["deviation"] for record in plans)
            figures = f"{found.mean():.4f}", f"{optimal.mean():.4f}", f"{apart:.1e}", f"{deviation:.1e}"
        times = 1e3 * np.array([record["wall_s"] for record in mine])
        shown = (
            f"{np.median(times):.3g}",
            f"{times.mean():.3g}",
            f"{np.mean([record['solved'] for record in mine]):.0%}",
        )
        rows.append((law, f"({k}, {n})", solver, *shown, f"{len(plans)}", *figures))
    measured = "acceptance", "by lp", "apart", "deviation"
    header = ("drafts", "(k, n)", "solver", "ms median", "mean", "solved", "plans", *measured)
    note = (
        "Solved: one drafted tuple. Of the positions with a whole plan: mean acceptances, and the largest differences."
    )
    return TextTable("Global Resolution beyond i.i.d. drafts", header, rows, note, labels=3)


if __name__ == "__main__":
    main()
