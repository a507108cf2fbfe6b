"""What the solvers promise of their plans: lossless wherever they stop, between certified bounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from otspec.laws import FloatArray
from otspec.problem import Problem
from otspec.proofs_check.claims import claim
from otspec.proofs_check.instances import distinct, independent, law, optimum_of, pair, positive_law, small_iid
from otspec.proofs_check.oracles import iid_optimum, members
from otspec.proofs_check.own.hits import DISTINCT, ROUNDING, scheme_of
from otspec.proofs_check.search import Draw
from otspec.schemes import HubPairs, Independent
from otspec.solving import solve

Judge: TypeAlias = Callable[[Problem, str], float]
"""The margin of a claim about a solver's plan of a problem."""


def _judged(problem: Problem, solver: str) -> tuple[float, float]:
    """Margin of: lossless over all tuples, acceptance <= alpha* <= bound; and the certified gap."""
    plan = solve(problem, solver, strict=False).plan
    if plan is None:
        return -np.inf, np.inf
    drafts, probabilities = problem.scheme.support()
    laws = np.array([plan.conditional(row) for row in drafts])
    alpha = optimum_of(problem)
    off = max(float(np.abs(probabilities @ laws - problem.p).sum()), -float(laws.min()))
    return min(alpha - plan.acceptance, plan.bound - alpha, -off), plan.gap


def _narrowed(problem: Problem, solver: str, below: float = 1.0, above: float = 1.0) -> float:
    """Margin of: alpha* lies between so many times the acceptance and the bound."""
    plan = solve(problem, solver, strict=False).plan
    if plan is None:
        return 0.0
    alpha = optimum_of(problem)
    return min(alpha - below * plan.acceptance, above * plan.bound - alpha)


def _margin(problem: Problem, solver: str) -> float:
    return _judged(problem, solver)[0]


NARROWED = {
    "1.001 times the acceptance.": {"judge": partial(_narrowed, below=1.001)},
    "0.999 times the bound.": {"judge": partial(_narrowed, above=0.999)},
}
STOPPED = ("submodular:max_steps=1", "submodular:max_steps=3", "submodular")
RACES = ("distinct_drafters:max_iterations=1", "distinct_drafters:max_iterations=20", "distinct_drafters")


def _by(draw: Draw, solvers: Sequence[str]) -> Draw:
    """Instances, each with one of the solvers."""
    return lambda rng: {**draw(rng), "solver": str(rng.choice(solvers))}


def _of_distinct(rng: np.random.Generator, any_law: Sequence[str], one_by_one: Sequence[str]) -> dict[str, Any]:
    """Distinct drafts, and a solver that takes all of them, or those that are drawn one by one."""
    scheme = str(rng.choice([*DISTINCT]))
    solvers = (*any_law, *one_by_one) if scheme == "without replacement" else any_law
    return {**distinct(rng, largest=4), "scheme": scheme, "solver": str(rng.choice(solvers))}


@claim("own-certified", _by(small_iid, [*STOPPED, *RACES]), tol=1e-11, cost=100, mutants=NARROWED)
def certified(p: FloatArray, q: FloatArray, n: int, solver: str, judge: Judge = _margin) -> float:
    """distinct_drafters and submodular are lossless wherever they stop, and alpha* lies between the plan's acceptance
    and bound: i.i.d. drafts. [otspec, docs/distinct_drafters.md, docs/without_replacement.md]

    Remark: Over all tuples, against all token sets, stopped after one step and later. The law of
    distinct_drafters is a quadrature, good to some 1e-13.
    """
    return judge(Problem(p, scheme_of("iid", q, n)), solver)


@claim("own-certified-independent", _by(independent, [*STOPPED, *RACES]), tol=1e-11, cost=100, mutants=NARROWED)
def certified_independent(p: FloatArray, qs: FloatArray, solver: str, judge: Judge = _margin) -> float:
    """The same for independent drafts of distinct laws. [otspec, docs/distinct_drafters.md,
    docs/without_replacement.md]
    """
    return judge(Problem(p, Independent(qs)), solver)


LAYERS = ("without_replacement:max_steps=1", "without_replacement", "without_replacement:tol=1e-9")


@claim(
    "own-certified-distinct",
    partial(_of_distinct, any_law=STOPPED, one_by_one=LAYERS),
    tol=1e-11,
    cost=100,
    mutants=NARROWED,
)
def certified_distinct(p: FloatArray, q: FloatArray, n: int, scheme: str, solver: str, judge: Judge = _margin) -> float:
    """The same for submodular and without_replacement, whose drafts differ, and submodular for greedy and top-n drafts.
    [otspec, docs/without_replacement.md]
    """
    return judge(Problem(p, scheme_of(scheme, q, n)), solver)


def _optimal(problem: Problem, solver: str, tol: float = 0.0) -> float:
    margin, gap = _judged(problem, solver)
    return min(margin, tol - gap)


def _distinct_laws(rng: np.random.Generator) -> dict[str, Any]:
    size = int(rng.integers(3, 5))
    return {"p": law(rng, size), "qs": np.array([law(rng, size) for _ in range(3)])}


@claim(
    "own-three-distinct-laws",
    _distinct_laws,
    tol=1e-11,
    cost=100,
    mutants={"After one step.": {"solver": "submodular:max_steps=1"}},
)
def three_distinct_laws(p: FloatArray, qs: FloatArray, solver: str = "submodular") -> float:
    """submodular finds the optimum of three drafts from three distinct laws, to a certified gap of 1e-9. [otspec,
    docs/without_replacement.md; on thomas2025global, Table 5, third row]
    """
    return _optimal(Problem(p, Independent(qs)), solver, 1e-9)


def _tight(rng: np.random.Generator) -> dict[str, Any]:
    """A target that a pick can just have: for some token sets p(A) = f(A)."""
    size = int(rng.integers(2, 4))
    qs = np.array([positive_law(rng, size) for _ in range(2)])
    return {"p": Independent(qs).priority_law(rng.permutation(size)), "qs": qs}


@claim("own-luce-ends", _tight, cost=30, counterexample={"p": [0.75, 0.25], "qs": [[0.5, 0.5], [0.5, 0.5]]})
def luce_ends(p: FloatArray, qs: FloatArray) -> float:
    """distinct_drafters reaches its tolerance, a gap of 1e-9, in its 500 iterations. [otspec,
    docs/distinct_drafters.md, which says that there is no proof of it]

    Beside: own-certified
    Instead: Where it stops is lossless and its gap certified (own-certified); submodular ends with a closed gap.
    Remark: Targets with p(A) = f(A) for some set A need infinite ratios of weights, and steps towards them are slow.
    Targets at random have no such set.
    """
    return _optimal(Problem(p, Independent(qs)), "distinct_drafters", 1e-9)


def _rule(problem: Problem, solver: str, optimal: bool = False) -> float:
    """Margin of: lossless, and acceptance <= P(the output is a draft) <= alpha*, over all tuples; or not below it."""
    plan = solve(problem, solver, strict=False).plan
    if plan is None:
        return 0.0 if optimal else -np.inf
    drafts, probabilities = problem.scheme.support()
    laws = np.array([plan.conditional(row) for row in drafts])
    member = float(probabilities @ (laws * members(drafts, problem.vocab)).sum(axis=1))
    alpha = optimum_of(problem)
    if optimal:
        return member - alpha
    off = float(np.abs(probabilities @ laws - problem.p).sum())
    return min(-off, alpha - member, member - plan.acceptance)


REACHED = {"They reach alpha*.": {"optimal": True}}


@claim("own-rules", _by(small_iid, ("naive", "single", "rrs", "kseq")), tol=1e-11, cost=40, mutants=REACHED)
def rules(p: FloatArray, q: FloatArray, n: int, solver: str, optimal: bool = False) -> float:
    """naive, single, rrs and kseq are lossless for i.i.d. drafts, and accept at most P(the output is a draft), at most
    alpha*. [otspec, docs/rules.md; leviathan2023fast; chen2023accelerating; miao2024specinfer; sun2023spectr]

    Remark: Over all tuples. naive, which samples from p, is the fallback of thomas2025global, Appendix R.
    """
    return _rule(Problem(p, scheme_of("iid", q, n)), solver, optimal)


@claim(
    "own-rules-distinct",
    partial(_of_distinct, any_law=("naive", "single"), one_by_one=("rsd",)),
    tol=1e-11,
    cost=40,
    mutants=REACHED,
)
def rules_distinct(p: FloatArray, q: FloatArray, n: int, scheme: str, solver: str, optimal: bool = False) -> float:
    """The same for rsd without replacement, and for naive and single with any distinct drafts. [otspec, docs/rules.md;
    jeon2024recursive]
    """
    return _rule(Problem(p, scheme_of(scheme, q, n)), solver, optimal)


def _as_iid(problem: Problem, solver: str, q: FloatArray, n: int) -> float:
    """Margin of: it accepts as often as i.i.d. drafts allow."""
    plan = solve(problem, solver, strict=False).plan
    return 0.0 if plan is None else -abs(plan.acceptance - iid_optimum(problem.p, q, n))


def _fixed(rng: np.random.Generator) -> dict[str, Any]:
    return {**distinct(rng), "scheme": str(rng.choice(["greedy", "top-n"]))}


@claim(
    "own-closed-form",
    _fixed,
    tol=ROUNDING,
    cost=25,
    mutants={"They accept as often as n i.i.d. drafts.": {"as_iid": True}},
)
def closed_form(p: FloatArray, q: FloatArray, n: int, scheme: str, as_iid: bool = False) -> float:
    """closed_form is lossless and optimal for greedy and top-n drafts. [otspec, docs/draft_laws.md]"""
    problem = Problem(p, scheme_of(scheme, q, n))
    return _as_iid(problem, "closed_form", q, n) if as_iid else _optimal(problem, "closed_form")


@claim(
    "own-spechub", pair, tol=ROUNDING, cost=25, mutants={"It accepts as often as two i.i.d. drafts.": {"as_iid": True}}
)
def spechub(p: FloatArray, q: FloatArray, as_iid: bool = False) -> float:
    """The rule of SpecHub is lossless and optimal for its pairs. [otspec, docs/draft_laws.md; sun2024spechub]"""
    problem = Problem(p, HubPairs(q))
    return _as_iid(problem, "spechub", q, 2) if as_iid else _optimal(problem, "spechub")
