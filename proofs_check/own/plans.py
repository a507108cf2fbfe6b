"""What the solvers promise of their plans: lossless wherever they stop, between certified bounds."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from otspec.laws import FloatArray
from otspec.problem import Problem
from otspec.proofs_check.claim import Claim, Mutation, Verdict
from otspec.proofs_check.instances import distinct, iid, independent, law, pair, positive_law
from otspec.proofs_check.oracles import iid_optimum, members, psi
from otspec.proofs_check.own.hits import ROUNDING, scheme_of
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
    alpha = 1 + float(psi(problem.p, drafts, probabilities).min())
    off = max(float(np.abs(probabilities @ laws - problem.p).sum()), -float(laws.min()))
    return min(alpha - plan.acceptance, plan.bound - alpha, -off), plan.gap


def _narrowed(problem: Problem, solver: str, below: float = 1.0, above: float = 1.0) -> float:
    """Margin of: alpha* lies between so many times the acceptance and the bound."""
    plan = solve(problem, solver, strict=False).plan
    if plan is None:
        return 0.0
    alpha = 1 + float(psi(problem.p, *problem.scheme.support()).min())
    return min(alpha - below * plan.acceptance, above * plan.bound - alpha)


def _as_iid(problem: Problem, solver: str, q: FloatArray, n: int) -> float:
    """Margin of: it accepts as often as i.i.d. drafts allow."""
    plan = solve(problem, solver, strict=False).plan
    return 0.0 if plan is None else -abs(plan.acceptance - iid_optimum(problem.p, q, n))


def _optimal(problem: Problem, solver: str, tol: float = 0.0) -> float:
    margin, gap = _judged(problem, solver)
    return min(margin, tol - gap)


def _margin(problem: Problem, solver: str) -> float:
    return _judged(problem, solver)[0]


def _iid(p: FloatArray, q: FloatArray, n: int, solver: str, judge: Judge = _margin) -> float:
    return judge(Problem(p, scheme_of("iid", q, n)), solver)


def _independent(p: FloatArray, qs: FloatArray, solver: str, judge: Judge = _margin) -> float:
    return judge(Problem(p, Independent(qs)), solver)


def _distinct(p: FloatArray, q: FloatArray, n: int, scheme: str, solver: str, judge: Judge = _margin) -> float:
    return judge(Problem(p, scheme_of(scheme, q, n)), solver)


def _closed(p: FloatArray, q: FloatArray, n: int, scheme: str) -> float:
    return _optimal(Problem(p, scheme_of(scheme, q, n)), "closed_form")


def _hub(p: FloatArray, q: FloatArray) -> float:
    return _optimal(Problem(p, HubPairs(q)), "spechub")


def _three_laws(p: FloatArray, qs: FloatArray, solver: str = "polymatroid") -> float:
    return _optimal(Problem(p, Independent(qs)), solver, 1e-9)


def _race_ends(p: FloatArray, qs: FloatArray) -> float:
    return _optimal(Problem(p, Independent(qs)), "luce", 1e-9)


def _rule(problem: Problem, solver: str, optimal: bool = False) -> float:
    """Margin of: lossless, and acceptance <= P(the output is a draft) <= alpha*, over all tuples; or not below it."""
    plan = solve(problem, solver, strict=False).plan
    if plan is None:
        return 0.0 if optimal else -np.inf
    drafts, probabilities = problem.scheme.support()
    laws = np.array([plan.conditional(row) for row in drafts])
    member = float(probabilities @ (laws * members(drafts, problem.vocab)).sum(axis=1))
    alpha = 1 + float(psi(problem.p, drafts, probabilities).min())
    if optimal:
        return member - alpha
    off = float(np.abs(probabilities @ laws - problem.p).sum())
    return min(-off, alpha - member, member - plan.acceptance)


def _iid_rule(p: FloatArray, q: FloatArray, n: int, solver: str, optimal: bool = False) -> float:
    return _rule(Problem(p, scheme_of("iid", q, n)), solver, optimal)


def _distinct_rule(p: FloatArray, q: FloatArray, n: int, scheme: str, solver: str, optimal: bool = False) -> float:
    return _rule(Problem(p, scheme_of(scheme, q, n)), solver, optimal)


def _iid_ruled(rng: np.random.Generator) -> dict[str, Any]:
    return {**iid(rng, largest=4, most=3), "solver": str(rng.choice(["naive", "single", "rrs", "kseq"]))}


def _distinct_ruled(rng: np.random.Generator) -> dict[str, Any]:
    scheme = str(rng.choice(["without replacement", "greedy", "top-n"]))
    solvers = ("naive", "single", "rsd") if scheme == "without replacement" else ("naive", "single")
    return {**distinct(rng, largest=4), "scheme": scheme, "solver": str(rng.choice(solvers))}


STOPPED = ("polymatroid:max_steps=1", "polymatroid:max_steps=3", "polymatroid")
RACES = ("luce:max_iterations=1", "luce:max_iterations=20", "luce")
LAYERS = ("release:max_steps=1", "release", "release:tol=1e-9")


def _iid_stopped(rng: np.random.Generator) -> dict[str, Any]:
    return {**iid(rng, largest=4, most=3), "solver": str(rng.choice([*STOPPED, *RACES]))}


def _independent_stopped(rng: np.random.Generator) -> dict[str, Any]:
    return {**independent(rng), "solver": str(rng.choice([*STOPPED, *RACES]))}


def _distinct_stopped(rng: np.random.Generator) -> dict[str, Any]:
    scheme = str(rng.choice(["without replacement", "greedy", "top-n"]))
    solvers = (*STOPPED, *LAYERS) if scheme == "without replacement" else STOPPED
    return {**distinct(rng, largest=4), "scheme": scheme, "solver": str(rng.choice(solvers))}


def _fixed(rng: np.random.Generator) -> dict[str, Any]:
    return {**distinct(rng), "scheme": str(rng.choice(["greedy", "top-n"]))}


def _distinct_laws(rng: np.random.Generator) -> dict[str, Any]:
    size = int(rng.integers(3, 5))
    return {"p": law(rng, size), "qs": np.array([law(rng, size) for _ in range(3)])}


def _tight(rng: np.random.Generator) -> dict[str, Any]:
    """A target that a pick can just have: for some token sets p(A) = f(A)."""
    size = int(rng.integers(2, 4))
    qs = np.array([positive_law(rng, size) for _ in range(2)])
    return {"p": Independent(qs).priority_law(rng.permutation(size)), "qs": qs}


CLAIMS = (
    Claim(
        "own-certified",
        "luce and polymatroid are lossless wherever they stop, and alpha* lies between the plan's acceptance and "
        "bound: i.i.d. drafts.",
        "otspec, docs/luce.md, docs/without_replacement.md",
        _iid_stopped,
        _iid,
        tol=1e-11,
        cost=100,
        remark="Over all tuples, against all token sets, stopped after one step and later. The law of luce is a "
        "quadrature, good to some 1e-13.",
        mutations=(
            Mutation("1.001 times the acceptance.", partial(_iid, judge=partial(_narrowed, below=1.001))),
            Mutation("0.999 times the bound.", partial(_iid, judge=partial(_narrowed, above=0.999))),
        ),
    ),
    Claim(
        "own-certified-independent",
        "The same for independent drafts of distinct laws.",
        "otspec, docs/luce.md, docs/without_replacement.md",
        _independent_stopped,
        _independent,
        tol=1e-11,
        cost=100,
        mutations=(
            Mutation("1.001 times the acceptance.", partial(_independent, judge=partial(_narrowed, below=1.001))),
            Mutation("0.999 times the bound.", partial(_independent, judge=partial(_narrowed, above=0.999))),
        ),
    ),
    Claim(
        "own-certified-distinct",
        "The same for polymatroid and release without replacement, and polymatroid for greedy and top-n drafts.",
        "otspec, docs/without_replacement.md",
        _distinct_stopped,
        _distinct,
        tol=1e-11,
        cost=100,
        mutations=(
            Mutation("1.001 times the acceptance.", partial(_distinct, judge=partial(_narrowed, below=1.001))),
            Mutation("0.999 times the bound.", partial(_distinct, judge=partial(_narrowed, above=0.999))),
        ),
    ),
    Claim(
        "own-three-distinct-laws",
        "polymatroid finds the optimum of three drafts from three distinct laws, to a certified gap of 1e-9.",
        "otspec, docs/without_replacement.md; on thomas2025global, Table 5, third row",
        _distinct_laws,
        _three_laws,
        tol=1e-11,
        cost=100,
        mutations=(Mutation("After one step.", lambda p, qs: _three_laws(p, qs, "polymatroid:max_steps=1")),),
    ),
    Claim(
        "own-luce-ends",
        "luce reaches its tolerance, a gap of 1e-9, in its 500 iterations.",
        "otspec, docs/luce.md, which says that there is no proof of it",
        _tight,
        _race_ends,
        variant_of="own-certified",
        cost=30,
        expected=Verdict.FAILS,
        counterexample={"p": np.array([0.75, 0.25]), "qs": np.array([[0.5, 0.5], [0.5, 0.5]])},
        remedy="Where it stops is lossless and its gap certified (own-certified); polymatroid ends with a closed gap.",
        remark="Targets with p(A) = f(A) for some set A need infinite ratios of weights, and steps towards them are "
        "slow. Targets at random have no such set.",
    ),
    Claim(
        "own-rules",
        "naive, single, rrs and kseq are lossless for i.i.d. drafts, and accept at most P(the output is a draft), at "
        "most alpha*.",
        "otspec, docs/rules.md; leviathan2023fast; chen2023accelerating; miao2024specinfer; sun2023spectr",
        _iid_ruled,
        _iid_rule,
        tol=1e-11,
        cost=40,
        remark="Over all tuples. naive, which samples from p, is the fallback of thomas2025global, Appendix R.",
        mutations=(Mutation("They reach alpha*.", lambda **instance: _iid_rule(**instance, optimal=True)),),
    ),
    Claim(
        "own-rules-distinct",
        "The same for rsd without replacement, and for naive and single with any distinct drafts.",
        "otspec, docs/rules.md; jeon2024recursive",
        _distinct_ruled,
        _distinct_rule,
        tol=1e-11,
        cost=40,
        mutations=(Mutation("They reach alpha*.", lambda **instance: _distinct_rule(**instance, optimal=True)),),
    ),
    Claim(
        "own-closed-form",
        "closed_form is lossless and optimal for greedy and top-n drafts.",
        "otspec, docs/draft_laws.md",
        _fixed,
        _closed,
        tol=ROUNDING,
        cost=25,
        mutations=(
            Mutation(
                "They accept as often as n i.i.d. drafts.",
                lambda p, q, n, scheme: _as_iid(Problem(p, scheme_of(scheme, q, n)), "closed_form", q, n),
            ),
        ),
    ),
    Claim(
        "own-spechub",
        "The rule of SpecHub is lossless and optimal for its pairs.",
        "otspec, docs/draft_laws.md; sun2024spechub",
        pair,
        _hub,
        tol=ROUNDING,
        cost=25,
        mutations=(
            Mutation(
                "It accepts as often as two i.i.d. drafts.",
                lambda p, q: _as_iid(Problem(p, HubPairs(q)), "spechub", q, 2),
            ),
        ),
    ),
)
