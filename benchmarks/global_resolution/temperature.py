"""Figures 4 and 5 of [thomas2025global]: a target sampled at temperatures below 1, the draft at 1.

    python -m benchmarks.global_resolution.temperature [--positions 128] [--data gemma2] [--out report/figures_4_5]

Figure 4 is the optimal acceptance over n and k at each temperature.  Figure 5 is what `global_resolution` at
tau = 1e-4 takes and how often it gives up, for one drafted tuple per position, with `interval` timed on the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

import otspec
from benchmarks.global_resolution.common import NS, acceptances, ks_in, ks_of, label, mean, temperatures_of
from benchmarks.reporting import Record, finish, options
from benchmarks.timing import laws_of
from otspec.data import Source
from otspec.laws import IntArray
from otspec.reporting.charts import Axis, line_chart
from otspec.reporting.console import progress_bar
from otspec.reporting.means import means
from otspec.reporting.pictures import picture
from otspec.reporting.style import ordered, styles_of
from otspec.reporting.tables import TextTable
from otspec.solver import Stopped
from otspec.solvers import GlobalResolution, Interval
from otspec.warming import warm_up

TEMPERATURES = (0.2, 0.4, 0.6, 0.8)
WITH_ONE = (*TEMPERATURES, 1.0)
TIMED_KS = (10, 100, 1000, 10_000)
TIMED_NS = (2, 3, 4, 5)
TAU = 1e-4
EXACT = "interval, all n"


def times(source: Source, positions: int) -> Iterator[Record]:
    """A record per temperature, k, n and position: milliseconds of both solvers, and whether the first succeeded."""
    resolution = GlobalResolution(tau=TAU)
    for n in TIMED_NS:
        warm_up(resolution, n)
        warm_up(Interval(), n)
    with progress_bar() as bar:
        for index in bar.track(range(positions), description=f"{source.name}, solve times"):
            position = source.position(index)
            for temperature in temperatures_of(source, WITH_ONE):
                for k in ks_of(source, TIMED_KS):
                    p, q = laws_of(position, k, temperature)
                    for n in TIMED_NS:
                        problem = otspec.Problem(p, otspec.IID(q, n))
                        drafts = problem.scheme.sample(np.random.default_rng([index, k, n]))
                        solved, ms = _timed(lambda: resolution.conditional(problem, drafts))  # noqa: B023
                        _, interval_ms = _timed(lambda: _plan_and_law(problem, drafts))  # noqa: B023
                        yield {
                            "data": source.name,
                            "temperature": temperature,
                            "k": k,
                            "n": n,
                            "position": index,
                            "solved": solved,
                            "ms": ms,
                            "interval_ms": interval_ms,
                        }


def _plan_and_law(problem: otspec.Problem, drafts: IntArray) -> None:
    plan = otspec.solve(problem, Interval()).plan
    assert plan is not None
    plan.conditional(drafts)


def _timed(call: Callable[[], object]) -> tuple[bool, float]:
    started = time.perf_counter()
    try:
        call()
        solved = True
    except Stopped:
        solved = False
    return solved, (time.perf_counter() - started) * 1e3


def acceptance_table(name: str, records: list[Record]) -> TextTable:
    """Figure 4 in numbers: a row per temperature and k."""
    rows: list[tuple[str, ...]] = [
        (f"{t:g}", label(k), *(f"{mean(records, temperature=t, k=k, n=n):.4f}" for n in NS))
        for t in temperatures_in(records)
        for k in ks_in(records)
    ]
    header = ("target temperature", "", *(f"n = {n}" for n in NS))
    return TextTable(f"Optimal acceptance on {name}, draft at temperature 1", header, rows, "interval, certified.")


def times_table(name: str, records: list[Record]) -> TextTable:
    """Figure 5 in numbers: a row per (k, n), mean milliseconds and share given up at each temperature."""
    rows: list[tuple[str, ...]] = []
    temperatures = temperatures_in(records)
    for k in ks_in(records):
        for n in TIMED_NS:
            row = [f"({k}, {n})"]
            for t in temperatures:
                mine = _of(records, k, n, t)
                row.append(f"{np.mean([r['ms'] for r in mine]):.2f} ({_failures(mine):.0%})")
            row.append(f"{np.mean([r['interval_ms'] for r in records if (r['k'], r['n']) == (k, n)]):.2f}")
            rows.append(tuple(row))
    header = ("(k, n)", *(f"T = {t:g}" for t in temperatures), "interval")
    note = "Mean ms per token over all positions, in brackets the share on which it gave up; interval never does."
    return TextTable(f"global_resolution, tau = {TAU:g}, on {name}", header, rows, note, labels=1)


def temperatures_in(records: list[Record]) -> list[float]:
    """The target's temperatures of records, in their order."""
    return list(dict.fromkeys(record["temperature"] for record in records))


def _of(records: list[Record], k: int, n: int, temperature: float) -> list[Record]:
    return [r for r in records if (r["k"], r["n"], r["temperature"]) == (k, n, temperature)]


def _failures(records: list[Record]) -> float:
    return float(np.mean([not record["solved"] for record in records]))


def draw_acceptance(name: str, records: list[Record], path: Path) -> None:
    """Figure 4: one chart per temperature, acceptance over n, one line per k."""
    styles = ordered([label(k) for k in ks_in(records)])
    charts = [
        line_chart(
            means([r for r in records if r["temperature"] == t], x="n", y="acceptance", series=lambda r: label(r["k"])),
            Axis("i.i.d. drafts n", ticks=NS),
            Axis("optimal acceptance"),
            styles,
            f"{name}, target temperature {t:g}",
        )
        for t in temperatures_in(records)
    ]
    picture(charts, styles, note="Means over positions, with one standard error.").save(path)


def draw_times(name: str, records: list[Record], path: Path) -> None:
    """Figure 5: mean time and share given up over the temperature, two charts for each k, one line per n."""
    styles = {**ordered([f"n = {n}" for n in TIMED_NS]), EXACT: styles_of(["interval"])["interval"]}
    over = Axis("target temperature", ticks=temperatures_in(records))
    share = Axis("share given up", ends=(0, 1), form=".0%")
    charts = []
    for k in ks_in(records):
        mine = [{**r, "given_up": not r["solved"]} for r in records if r["k"] == k]
        ms = means(mine, x="temperature", y="ms", series=lambda r: f"n = {r['n']}")
        ms += means(mine, x="temperature", y="interval_ms", series=lambda r: EXACT)
        lost = means(mine, x="temperature", y="given_up", series=lambda r: f"n = {r['n']}")
        charts.append(line_chart(ms, over, Axis("ms per token", log=10), styles, f"{name}, {label(k)}", height=170))
        charts.append(line_chart(lost, over, share, styles, f"{name}, {label(k)}", height=170))
    picture(charts, styles, note="Means over positions, with one standard error.").save(path)


def main() -> None:
    """Measure, print, draw."""
    request = options("Figures 4 and 5: the target's temperature.", "gemma2", 128, "report/figures_4_5")
    records: list[Record] = []
    tables, pictures = [], []
    for source in request.sources:
        colder = temperatures_of(source, TEMPERATURES)
        curves = [r for t in colder for r in acceptances(source, request.positions, temperature=t)]
        timed = list(times(source, request.positions))
        draw_acceptance(source.name, curves, request.out / f"{source.name}_acceptance.png")
        draw_times(source.name, timed, request.out / f"{source.name}_times.png")
        tables += [acceptance_table(source.name, curves), times_table(source.name, timed)]
        pictures += [f"{source.name}_acceptance.png", f"{source.name}_times.png"]
        records += curves + timed
    finish(request.out, records, tables, pictures)


if __name__ == "__main__":
    main()
