"""Two ways to the same optimum, timed on the same problems: smaller systems, or a sweep, against maximum flow."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from typing import Annotated

import numpy as np
import typer

from benchmarks.measuring import distinct_problem, laws_of
from benchmarks.questions import Data, Out, Positions, Question, answer, over
from benchmarks.reporting import Record
from benchmarks.tables import by_data, figures, label
from otspec import Problem, Systematic, solve
from otspec.certificate import transport_network
from otspec.data import Source, open_source
from otspec.kernels.max_flow import min_cut
from otspec.laws import FloatArray, IntArray
from otspec.plans.segment_rule import optimal_segment_rule
from otspec.reporting.columns import Column, table
from otspec.reporting.console import numbers
from otspec.reporting.means import grouped
from otspec.reporting.tables import TextTable
from otspec.solvers import MaxFlow, Slackness

RUNS = 5
TOKENS = (100, 1000, 10_000, 100_000)
NS = (2, 4)
Laws = Callable[[int, int], tuple[FloatArray, FloatArray]]
"""From the number of a problem and of tokens to p and q, shape (V,)."""


def slackness(
    data: Data = "llama3",
    positions: Positions = 20,
    k: Annotated[str, typer.Option(help="Tokens that are drafted, a list.")] = "10,50,100,200",
    out: Out = None,
) -> None:
    """What two smaller systems save over one maximum flow, for two drafts from laws of their own.

    Times are processor time from the problem to the law of the output given one drafted tuple: for `max_flow` by way of
    the certified plan, for `slackness` by way of H* and the one system that the tuple needs.  Both have the same
    engine; the ratio is the median over positions of paired times.
    """
    answer(SLACKNESS, over(data, positions, partial(by_systems, ks=numbers("--k", k))), out)


def earliest_deadline(positions: Positions = 9, out: Out = None) -> None:
    """Does `earliest_deadline` earn its place?  Against maximum flow on the same draft sets, from laws to certificate.

    Two sources: positions of the llama3 profile, and laws that differ by 10 %, where nearly every token is tight.
    """
    answer(EARLIEST_DEADLINE, by_sweep(positions), out)


def by_systems(source: Source, positions: int, ks: Sequence[int]) -> Iterator[Record]:
    """Milliseconds of `max_flow` and of `slackness` by position, and the larger gap of their plans."""
    for k, index in product(ks, range(positions)):
        problem = distinct_problem(source.position(index), k, 2, seed=index)
        drafts = problem.scheme.sample(index)
        flow, systems = (_best(way, problem, drafts) for way in (_by_plan, Slackness().conditional))
        gap = max(abs(solve(problem, solver).plan.gap) for solver in (MaxFlow(), Slackness()))
        times = {"max_flow_ms": 1e3 * flow, "slackness_ms": 1e3 * systems, "ratio": systems / flow}
        yield {"data": source.name, "k": k, "n": 2, "position": index, **times, "gap": gap}


def _by_plan(problem: Problem, drafts: IntArray) -> FloatArray:
    return solve(problem, MaxFlow()).plan.conditional(drafts)


def _best(answer_of: Callable[[Problem, IntArray], FloatArray], problem: Problem, drafts: IntArray) -> float:
    """Processor time, the best of a few runs after one that compiles."""
    answer_of(problem, drafts)
    times = []
    for _ in range(RUNS):
        started = time.process_time()
        answer_of(problem, drafts)
        times.append(time.process_time() - started)
    return min(times)


def by_sweep(positions: int) -> Iterator[Record]:
    """Milliseconds of `earliest_deadline` and of a maximum flow by problem; one more, before all, compiles."""
    laws: dict[str, Laws] = {"llama3": profile, "close": close}
    for (name, source), tokens, n in product(laws.items(), TOKENS, NS):
        for index in range(-1, positions):
            sweep, flow = both(*source(max(index, 0), tokens), n)
            if index >= 0:
                times = {"earliest_deadline_ms": 1e3 * sweep, "max_flow_ms": 1e3 * flow}
                yield {"laws": name, "tokens": tokens, "n": n, "position": index, **times}


def both(p: FloatArray, q: FloatArray, n: int) -> tuple[float, float]:
    """Seconds of either on laws of shape (V,), each on a scheme of its own: a scheme keeps what it has listed."""
    problem, again = (Problem(p, Systematic(q, n)) for _ in range(2))
    started = time.perf_counter()
    optimal_segment_rule(problem.p, problem.scheme)  # type: ignore[arg-type]  # Systematic
    swept = time.perf_counter()
    min_cut(transport_network(again, again.scheme.draft_sets()))
    return swept - started, time.perf_counter() - swept


def profile(index: int, tokens: int) -> tuple[FloatArray, FloatArray]:
    """p and q of a position of llama3, drafts truncated to so many tokens, shape (V,)."""
    return laws_of(open_source("llama3", 0).position(index), tokens)


def close(index: int, tokens: int) -> tuple[FloatArray, FloatArray]:
    """Exponential weights with noise, and without, shape (V,)."""
    rng = np.random.default_rng([index, tokens])
    q = rng.dirichlet(np.ones(tokens))
    p = q * np.exp(rng.normal(scale=0.1, size=tokens))
    return p / p.sum(), q


Group = Sequence[Record]
SYSTEMS: Sequence[Column[Group]] = (
    Column("(k, n)", lambda group: f"({group[0]['k']}, {group[0]['n']})", label=True),
    figures("max_flow ms", "max_flow_ms", np.median, ".3g"),
    figures("slackness ms", "slackness_ms", np.median, ".3g"),
    figures("ratio", "ratio", np.median, ".2f"),
    figures("largest gap", "gap", np.max, ".0e"),
)
SWEEP: Sequence[Column[Group]] = (
    label("laws", "laws"),
    label("tokens", "tokens"),
    label("n", "n"),
    figures("earliest deadline ms", "earliest_deadline_ms", np.median, ".3g"),
    figures("max flow ms", "max_flow_ms", np.median, ".3g"),
    Column("ratio", lambda group: f"{_median(group, 'max_flow_ms') / _median(group, 'earliest_deadline_ms'):.2g}"),
)


def _median(group: Group, field: str) -> float:
    return float(np.median([one[field] for one in group]))


def _of_systems(data: str, records: Sequence[Record]) -> TextTable:
    sizes = grouped(records, lambda record: int(record["k"])).values()
    return table(f"Two drafts from laws of their own on {data}", SYSTEMS, sizes)


def _of_sweep(records: Sequence[Record]) -> list[TextTable]:
    groups = grouped(records, lambda record: (record["laws"], record["tokens"], record["n"])).values()
    return [table("Earliest deadline against maximum flow", SWEEP, groups, "Medians.")]


SLACKNESS = Question("slackness", [slackness], ("data", "k", "position"), by_data(_of_systems))
EARLIEST_DEADLINE = Question("earliest-deadline", [earliest_deadline], ("laws", "tokens", "n", "position"), _of_sweep)
