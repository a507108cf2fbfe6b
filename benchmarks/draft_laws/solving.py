"""What it costs to solve for drafts without replacement, and for independent ones from laws of their own.

q is truncated to top-k and renormalised, p is not.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Literal

import numpy as np
import typer

from benchmarks.measuring import distinct_problem, laws_of
from benchmarks.questions import Data, Out, Positions, Question, answer, over
from benchmarks.reporting import Record
from benchmarks.tables import by_data, figures, label
from otspec.catalogue import get
from otspec.certificate import optimum
from otspec.data import Position, Source
from otspec.laws import FloatArray, law_from_logits
from otspec.problem import Problem
from otspec.reporting.columns import Column, table
from otspec.reporting.console import numbers
from otspec.reporting.means import grouped
from otspec.reporting.tables import TextTable
from otspec.schemes import IID, DraftScheme, Independent, WithoutReplacement
from otspec.solver import Solver
from otspec.solvers import Polymatroid
from otspec.solving import solve

GOAL = 1e-4
"""Gap that counts as good enough."""
STEPS = (10, 30, 100, 300)
REPEATS = 3

Truncations = Annotated[str, typer.Option("--k", help="Tokens that are drafted, a list.")]
Drafts = Annotated[str, typer.Option("--n", help="Drafts, a list.")]


def without_replacement(
    data: Data = "llama3",
    positions: Positions = 100,
    k: Truncations = "100,1000",
    n: Drafts = "2,3,4,8",
    solver: Annotated[str, typer.Option(help="release, or polymatroid:tol=1e-4")] = "release",
    out: Out = None,
) -> None:
    """What drafting without replacement is worth, and what it costs to verify such drafts optimally.

    A time is that of the whole solve, from the two laws on k + 1 compact tokens to the certified plan: sort, hit
    probabilities, blocks, rule, and the rule's exact law.  "i.i.d." is the optimum for as many drafts drawn with
    replacement.
    """
    ks, ns = numbers("--k", k), numbers("--n", n)
    measure = partial(same_drafter, ks=ks, ns=ns, solver=get(solver))
    answer(WITHOUT_REPLACEMENT, over(data, positions, measure), out)


def distinct_laws(
    data: Data = "llama3", positions: Positions = 100, k: Truncations = "1000", n: Drafts = "2,3,4", out: Out = None
) -> None:
    """The certified gap of `polymatroid` after so many steps, for independent drafts from n laws of their own.

    As from n draft models: the logits of the target plus independent errors, of the size that the position has.  Any
    order of the tokens fails there.
    """
    ks, ns = numbers("--k", k), numbers("--n", n)
    answer(DISTINCT_LAWS, over(data, positions, partial(distinct_drafters, ks=ks, ns=ns)), out)


def luce(
    data: Data = "llama3",
    positions: Positions = 20,
    k: Annotated[str, typer.Option(help="Draft tokens kept, or V.")] = "1000",
    n: Annotated[int, typer.Option(min=1, help="Drafts.")] = 4,
    drafts: Annotated[Literal["iid", "temperatures", "noise"], typer.Option(help="Their laws.")] = "iid",
    solvers: Annotated[str, typer.Option(help="A list.")] = "luce:tol=1e-4,luce:tol=1e-6,luce,interval",
    out: Out = None,
) -> None:
    """Solvers of independent drafts against each other: `luce` beside the exact ones.

    "temperatures" gives the n drafts temperatures from 0.7 to 1.3, "noise" a draft model each: normal noise of 0.5 on
    the logits.  A solver is timed from the problem on compact tokens to the plan with its certificate.
    """
    kept = None if k == "V" else numbers("--k", k)[0]
    measure = partial(independent_drafters, k=kept, n=n, drafts=drafts, spellings=solvers.split(","))
    answer(LUCE, over(data, positions, measure), out)


def timed(problem: Problem, solver: Solver) -> Record:
    """The best of a few solves, since others share the machine, with what the plan says about itself."""
    wall_s = np.inf
    for _ in range(REPEATS):
        fresh = replace(problem)  # keeps nothing from the solve before
        started = time.perf_counter()
        result = solve(fresh, solver, strict=False)
        wall_s = min(wall_s, time.perf_counter() - started)
    assert result.plan is not None, result.message
    plan = result.plan
    return {
        "solver": solver.name,
        "status": result.status.name,
        "ms": 1e3 * wall_s,
        "acceptance": plan.acceptance,
        "bound": plan.acceptance + plan.gap,
        "gap": plan.gap,
        "deviation": plan.deviation,
        **result.stats.sizes,
    }


def same_drafter(
    source: Source, positions: int, ks: Sequence[int], ns: Sequence[int], solver: Solver
) -> Iterator[Record]:
    """Solve positions with drafts without replacement, one record each."""
    for k in ks:
        for index in range(positions):
            p, q = laws_of(source.position(index), k)
            for n in ns:
                problem = Problem(p, WithoutReplacement(q, n))
                iid = optimum(Problem(p, IID(q, n))).acceptance
                if index == 0:
                    timed(problem, solver)  # what is compiled or loaded at a first call is no cost of a solve
                place = {"data": source.name, "k": k, "n": n, "position": index}
                yield {**place, "iid": iid, **timed(problem, solver)}


def distinct_drafters(source: Source, positions: int, ks: Sequence[int], ns: Sequence[int]) -> Iterator[Record]:
    """Solve positions with n independent drafts from n laws, over the k tokens likeliest to be put out."""
    for k in ks:
        for index in range(positions):
            for n in ns:
                problem = distinct_problem(source.position(index), k, n, seed=index)
                for steps in STEPS:
                    if index == 0:
                        timed(problem, Polymatroid(max_steps=2))
                    place = {"data": source.name, "k": k, "n": n, "position": index, "max_steps": steps}
                    yield {**place, **timed(problem, Polymatroid(max_steps=steps))}


def independent_drafters(
    source: Source, positions: int, k: int | None, n: int, drafts: str, spellings: Sequence[str]
) -> Iterator[Record]:
    """Solve positions with n independent drafts by every solver, one record each."""
    rng = np.random.default_rng(0)
    problems = [independent_problem(source.position(index), drafts, k, n, rng) for index in range(positions)]
    for spelling in spellings:
        solver = get(spelling)
        solve(problems[0], solver, strict=False)
        for index, problem in enumerate(problems):
            started = time.perf_counter()
            solution = solver(problem)
            wall_s = time.perf_counter() - started
            place = {"data": source.name, "k": k, "n": n, "drafts": drafts, "solver": spelling, "position": index}
            iterations = solution.sizes.get("iterations", 0)
            yield {**place, "ms": 1e3 * wall_s, "gap": solution.plan.gap, "iterations": iterations}


def independent_problem(position: Position, drafts: str, k: int | None, n: int, rng: np.random.Generator) -> Problem:
    """One position with n drafts, each truncated to its k likeliest tokens."""

    def law(logits: FloatArray, temperature: float = 1.0) -> FloatArray:
        return law_from_logits("draft_logits", logits, temperature, k, None)

    logits = position.draft_logits
    scheme: DraftScheme
    if drafts == "iid":
        scheme = IID(law(logits), n)
    elif drafts == "temperatures":
        scheme = Independent(np.stack([law(logits, temperature) for temperature in np.linspace(0.7, 1.3, n)]))
    else:
        scheme = Independent(np.stack([law(logits + 0.5 * rng.standard_normal(logits.size)) for _ in range(n)]))
    return Problem(law_from_logits("target_logits", position.target_logits, 1.0, None, None), scheme).compact().problem


Group = Sequence[Record]
SIZE: Column[Group] = Column("(k, n)", lambda group: f"({group[0]['k'] or 'V'}, {group[0]['n']})", label=True)
TIMES = (
    figures("ms median", "ms", np.median, ".3g"),
    figures("mean", "ms", np.mean, ".3g"),
    figures("95 %", "ms", lambda ms: float(np.percentile(ms, 95)), ".3g"),
    figures("max", "ms", np.max, ".3g"),
)
GAPS = (
    figures("gap mean", "gap", lambda gaps: max(float(gaps.mean()), 0.0), ".0e"),
    figures("gap max", "gap", lambda gaps: max(float(gaps.max()), 0.0), ".0e"),
    figures(f"<= {GOAL:g}", "gap", lambda gaps: float(np.mean(gaps <= GOAL)), ".2f"),
    figures("worst deviation", "deviation", np.max, ".0e"),
)
OPTIMA = (figures("alpha*", "bound", np.mean, ".4f"), figures("alpha* i.i.d.", "iid", np.mean, ".4f"))
LIMIT: Column[Group] = label("steps", "max_steps")
OF_SOLVERS: Sequence[Column[Group]] = (
    label("drafts", "drafts"),
    SIZE,
    label("solver", "solver"),
    *TIMES,
    figures("gap median", "gap", np.median, ".1e"),
    figures("max", "gap", np.max, ".1e"),
    figures("<= 1e-4", "gap", lambda gaps: float(np.mean(gaps <= 1e-4)), ".0%"),
    figures("<= 1e-6", "gap", lambda gaps: float(np.mean(gaps <= 1e-6)), ".0%"),
    figures("iterations median", "iterations", np.median, ".0f"),
    figures("at most", "iterations", np.max, ".0f"),
)


SETTING = ("drafts", "k", "n", "max_steps", "solver")


def _settings(title: str, columns: Sequence[Column[Group]]) -> Callable[[Sequence[Record]], list[TextTable]]:
    """Tables with a row for each setting."""

    def tell(data: str, records: Sequence[Record]) -> TextTable:
        settings = grouped(records, lambda record: tuple(record.get(field) for field in SETTING))
        return table(f"{title} on {data}", columns, settings.values())

    return by_data(tell)


PLACE = ("data", "k", "n", "solver", "position")
WITHOUT_REPLACEMENT = Question(
    "without-replacement",
    [without_replacement],
    PLACE,
    _settings("Drafts without replacement", (SIZE, *OPTIMA, *TIMES, *GAPS)),
)
DISTINCT_LAWS = Question(
    "distinct-laws",
    [distinct_laws],
    (*PLACE, "max_steps"),
    _settings("Drafts from distinct laws", (SIZE, LIMIT, *TIMES, *GAPS)),
)
LUCE = Question("luce", [luce], (*PLACE, "drafts"), _settings("Independent drafts", OF_SOLVERS))
