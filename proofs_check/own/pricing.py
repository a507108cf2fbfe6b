"""What a rule may gain that is off the target: the frontier, and the rule that attains it."""

from __future__ import annotations

from typing import Any

import numpy as np

from otspec.laws import FloatArray, IntArray
from otspec.plans import Lossy
from otspec.pricing import best_lossy_plan
from otspec.problem import Problem
from otspec.proofs_check.claims import claim
from otspec.proofs_check.instances import distinct, pair, table, table_problem
from otspec.proofs_check.oracles import Program, full_program, members, psi
from otspec.proofs_check.own.hits import DISTINCT, scheme_of


def _priced(rng: np.random.Generator) -> dict[str, Any]:
    """Drafts of an arbitrary joint law, and a price."""
    return {**table(rng), "price": _price(rng)}


def _price(rng: np.random.Generator) -> float:
    """From nothing to more than what it takes; often little."""
    return float(rng.choice([0.0, rng.random() ** 3, rng.random()]))


def _best(p: FloatArray, drafts: IntArray, law: FloatArray, price: float) -> float:
    """The largest acceptance at that price, by a linear program over the plan and what the output has over p."""
    program = full_program(p, members(drafts, p.size), law)
    assert program.equal is not None
    sums, totals = program.equal
    size = p.size
    over = np.zeros((len(sums), 2 * size))  # the output's law less p, its two signs apart
    over[:size] = np.hstack((-np.eye(size), np.eye(size)))
    gain = np.concatenate((program.gain, np.zeros(2 * size)))
    paid = np.concatenate((np.zeros(program.gain.size), np.ones(size), np.zeros(size)))
    return Program(gain, at_most=(paid[None], np.array([price])), equal=(np.hstack((sums, over)), totals)).solve()[0]


def _line(p: FloatArray, drafts: IntArray, law: FloatArray, price: float) -> float:
    """alpha* + price, or 1."""
    return min(1.0 + float(psi(p, drafts, law).min()) + price, 1.0)


@claim(
    "own-lossy-frontier",
    _priced,
    tol=1e-8,
    mutants={"alpha* + e / 2.": {"rate": 0.5}, "alpha* + 2 e: paid as an L1 distance.": {"rate": 2.0}},
)
def lossy_frontier(p: FloatArray, drafts: IntArray, law: FloatArray, price: float, rate: float = 1.0) -> float:
    """The largest acceptance of a rule whose output is at total variation e at most from p is min(1, alpha* + e), for
    drafts of any law. [otspec, docs/lossy.md, Theorem 1]

    Remark: By a linear program over the plan and the law of its output together.
    Margin: Minus how far that is from alpha* + price.
    """
    return -abs(_best(p, drafts, law, price) - _line(p, drafts, law, rate * price))


def _figures(plan: Lossy, drafts: IntArray, law: FloatArray, price: float, times: float = 1.0) -> float:
    """What the price leaves of what a plan is off, summed up tuple by tuple, and how far its acceptance is off."""
    p = plan.problem.p
    laws = np.array([plan.conditional(row) for row in drafts])
    accepted = float((law @ (laws * members(drafts, p.size))).sum())
    off = float(np.abs(law @ laws - p).sum()) / 2
    return min(times * price - off, -abs(accepted - _line(p, drafts, law, price)))


@claim("own-lossy-attained", _priced, tol=1e-8, mutants={"At half of that.": {"times": 0.5}})
def lossy_attained(p: FloatArray, drafts: IntArray, law: FloatArray, price: float, times: float = 1.0) -> float:
    """A pick of law g that is verified for (1 - s) p + s g, s = e / (1 - alpha*), is at total variation e and accepts
    alpha* + e. [otspec, docs/lossy.md, Theorem 2]

    Remark: By otspec.best_lossy_plan, whose output is summed up over all tuples.
    """
    plan = best_lossy_plan(table_problem(p, drafts, law), price)
    return _figures(plan, drafts[law > 0], law[law > 0], price, times)


def _by_scheme(rng: np.random.Generator) -> dict[str, Any]:
    """Drafts of a law that has a solver of its own, and a price."""
    return {**distinct(rng, 4), "scheme": str(rng.choice(["iid", *DISTINCT])), "price": _price(rng)}


@claim("own-lossy-schemes", _by_scheme, tol=1e-4, mutants={"At half of that.": {"times": 0.5}})
def lossy_schemes(p: FloatArray, q: FloatArray, n: int, scheme: str, price: float, times: float = 1.0) -> float:
    """The same for i.i.d. and for different drafts, by the solvers of choice. [otspec, docs/lossy.md, Theorem 2]

    Remark: release, for drafts without replacement, is certified to 1e-4.
    """
    problem = Problem(p, scheme_of(scheme, q, n))
    drafts, law = problem.scheme.support()
    return _figures(best_lossy_plan(problem, price), drafts, law, price, times)


def _ensemble(rng: np.random.Generator) -> dict[str, Any]:
    return {**pair(rng), "weight": float(rng.random())}


@claim("own-diversed", _ensemble, tol=1e-8, mutants={"1 - TV(p, q).": {"weighted": False}})
def diversed(p: FloatArray, q: FloatArray, weight: float, weighted: bool = True) -> float:
    """For one draft, verification for w p + (1 - w) q accepts 1 - w TV(p, q), and no rule at its total variation
    accepts more. [otspec, docs/lossy.md, Corollary 2; wang2026diversed (arXiv:2604.07622), abstract]

    Remark: Of the paper the abstract was at hand, which says that the mixture traces the Pareto frontier.
    Margin: The acceptance of w p + (1 - w) q against 1 - w TV, and against the best at what it pays.
    """
    target = weight * p + (1 - weight) * q
    accepted, tv = float(np.minimum(target, q).sum()), float(np.abs(p - q).sum()) / 2
    paid = float(np.abs(target - p).sum()) / 2
    best = _best(p, np.arange(p.size)[:, None], q, paid)
    return -max(abs(accepted - (1 - (weight if weighted else 1.0) * tv)), abs(accepted - best))
