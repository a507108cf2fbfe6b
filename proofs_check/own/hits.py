"""Hit functions, the laws that a pick among the drafts can have, and the certificate that they make."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from otspec.certificate import optimum
from otspec.laws import FloatArray, IntArray, sum_by
from otspec.plans.figures import residual_law
from otspec.problem import Problem
from otspec.proofs_check.claims import claim
from otspec.proofs_check.instances import (
    distinct,
    independent,
    law,
    ordered,
    positive_law,
    small_iid,
    table,
    table_problem,
)
from otspec.proofs_check.oracles import inside, members, prefixes, relaxed_program, submodularity, token_sets, transport
from otspec.proofs_check.search import Descent
from otspec.schemes import IID, DraftScheme, Greedy, Independent, Support, TopK, WithoutReplacement
from otspec.tolerances import TIE_TOL

ROUNDING = 10 * TIE_TOL
"""Of a certificate: tokens within `TIE_TOL` of a tie count as tied, which moves the bound by as much, at most each."""


def hit_function(drafts: IntArray, law: FloatArray, vocab: int) -> FloatArray:
    """f(A) = P(some draft in A) of every token set, shape (2**V,)."""
    return 1.0 - inside(drafts, law, vocab)[::-1]  # the complement of A stands at its place from the end


@claim("hit-submodular", table, mutants={"It is modular.": {"sign": -1}})
def submodular(p: FloatArray, drafts: IntArray, law: FloatArray, sign: int = 1) -> float:
    """The hit function f(A) = P(some draft in A) is submodular, whatever the law of the drafts. [otspec;
    thomas2025global, Theorem C.1 has it for independent drafts]

    Remark: P(all drafts in H) is a mixture of indicators of A in H over draft sets A, each supermodular.
    """
    return submodularity(sign * hit_function(drafts, law, p.size))


def _picking(rng: np.random.Generator) -> dict[str, Any]:
    """A problem, and for every tuple the law of which draft is picked."""
    instance = table(rng, largest=4)
    count, n = instance["drafts"].shape
    return {**instance, "weights": np.array([law(rng, n) for _ in range(count)])}


def _pick_law(drafts: IntArray, law: FloatArray, weights: FloatArray, vocab: int) -> FloatArray:
    return sum_by(drafts.ravel(), (law[:, None] * weights).ravel(), vocab)


@claim(
    "own-pick-is-base",
    _picking,
    Descent("law weights"),
    cost=3,
    mutants={"g(A) <= 0.95 f(A), of A that are not all tokens.": {"share": 0.95}},
)
def pick_is_base(p: FloatArray, drafts: IntArray, law: FloatArray, weights: FloatArray, share: float = 1.0) -> float:
    """Whatever the rule, the law g of a picked draft has g(A) <= f(A) for every token set A. [otspec,
    docs/draft_laws.md, Theorem 1; edmonds1970submodular]
    """
    sets = np.arange((1 << p.size) - (share < 1))
    picked = token_sets(p.size)[sets] @ _pick_law(drafts, law, weights, p.size)
    return float((share * hit_function(drafts, law, p.size)[sets] - picked).min())


@claim("own-base-is-pick", table, cost=5, mutants={"For A of one token.": {"most": 1}})
def base_is_pick(p: FloatArray, drafts: IntArray, law: FloatArray, most: int | None = None) -> float:
    """Every law g with g(A) <= f(A) for all A is the law of some pick; for others, what no pick can serve is the
    largest g(A) - f(A). [otspec, docs/draft_laws.md, Theorem 1; strassen1965existence]

    Margin: Here p is the law that a pick should have; with A of at most so many tokens.
    """
    sets = token_sets(p.size)
    beyond = sets @ p - hit_function(drafts, law, p.size)
    out_of_reach = float(beyond[sets.sum(axis=1) <= (p.size if most is None else most)].max())
    served = transport(p, members(drafts, p.size), law)
    return -abs(float(served.sum()) - (1 - out_of_reach))


@claim("own-orders-are-vertices", ordered, cost=2, mutants={"The order reversed.": {"step": -1}})
def orders_are_vertices(p: FloatArray, drafts: IntArray, law: FloatArray, order: IntArray, step: int = 1) -> float:
    """Picking the draft that comes first in an order gives token v_i what f gains from the i-th prefix. [otspec,
    docs/without_replacement.md, Lemma 4; edmonds1970submodular]
    """
    rises = np.diff(hit_function(drafts, law, p.size)[prefixes(order[::step])])[::step]
    return -float(np.abs(Support(drafts, law).priority_law(order)[order] - rises).max())


@claim("own-pick-lossless", _picking, Descent("p law weights"), cost=3, mutants={"Else draw from p.": {"from_p": True}})
def pick_lossless(p: FloatArray, drafts: IntArray, law: FloatArray, weights: FloatArray, from_p: bool = False) -> float:
    """Pick a draft by any rule of law g, accept it with probability min(1, p/g), else draw from (p - g)+: the output
    has law p. [otspec, docs/interval.md; khisti2025multi; chen2023accelerating]

    Margin: Output law of the rule, tuple by tuple: pick x, accept it with probability min(1, p/g), else draw (p - g)+.
    """
    g = _pick_law(drafts, law, weights, p.size)
    accept = np.divide(p, g, out=np.ones_like(p), where=g > p)
    accepted = law[:, None] * weights * accept[drafts]
    output = sum_by(drafts.ravel(), accepted.ravel(), p.size) + (1 - accepted.sum()) * (
        p if from_p else residual_law(p, g)
    )
    return -float(np.abs(output - p).sum())


def _with_set(rng: np.random.Generator) -> dict[str, Any]:
    instance = _picking(rng)
    return {**instance, "tokens": rng.integers(0, 2, instance["p"].size)}


@claim(
    "own-certificate",
    _with_set,
    Descent("p law weights"),
    cost=5,
    mutants={"1.01 times the sum.": {"below": 1.01}, "0.99 times the upper bound.": {"above": 0.99}},
)
def certificate(
    p: FloatArray,
    drafts: IntArray,
    law: FloatArray,
    weights: FloatArray,
    tokens: IntArray,
    below: float = 1.0,
    above: float = 1.0,
) -> float:
    """For every law g of a pick and every H: sum of min(p, g) <= alpha* <= P(some draft outside H) + p(H). [otspec,
    otspec/certificate.py; hu2025towards]

    Remark: alpha* is the value of a maximum flow here.
    Margin: With so many times the lower and the upper bound.
    """
    best = float(transport(p, members(drafts, p.size), law).sum())
    accepted = float(np.minimum(p, _pick_law(drafts, law, weights, p.size)).sum())
    outside = float(law[~tokens.astype(bool)[drafts].all(axis=1)].sum())
    return min(best - below * accepted, above * (outside + float(p @ tokens)) - best)


def _certified(problem: Problem, most: int | None = None) -> float:
    """How far the certificate of `otspec.optimum` is from closing, its g from a base, its value from alpha*.

    alpha* is the least over all sets, or over those of at most so many tokens.
    """
    best = optimum(problem)
    drafts, probabilities = problem.scheme.support()
    hit = hit_function(drafts, probabilities, problem.vocab)
    sets = token_sets(problem.vocab)
    of_sets = (hit + 1 - sets @ problem.p)[sets.sum(axis=1) <= (problem.vocab if most is None else most)]
    alpha = float(of_sets.min())
    over = float((sets @ best.proposal - hit).max())
    return -max(abs(best.acceptance - alpha), abs(best.bound - alpha), over, abs(float(best.proposal.sum()) - 1))


DISTINCT: Mapping[str, type[WithoutReplacement | Greedy | TopK]] = {
    "without replacement": WithoutReplacement,
    "greedy": Greedy,
    "top-n": TopK,
}
"""Schemes of n distinct drafts from one law."""


def scheme_of(scheme: str, q: FloatArray, n: int) -> DraftScheme:
    """A scheme by its word."""
    return IID(q, n) if scheme == "iid" else DISTINCT[scheme](q, n)


def _drafting(rng: np.random.Generator) -> dict[str, Any]:
    return {**distinct(rng), "scheme": str(rng.choice(["iid", *DISTINCT]))}


FEW = {"At the least over sets of at most one token.": {"most": 1}}


@claim("own-optimum", _drafting, tol=ROUNDING, cost=15, mutants=FEW)
def own_optimum(p: FloatArray, q: FloatArray, n: int, scheme: str, most: int | None = None) -> float:
    """Both sides of the certificate meet at alpha*: i.i.d. drafts, without replacement, greedy, top-n. [otspec,
    otspec/certificate.py]

    Remark: alpha* is the least over all token sets; that g is the law of a pick is checked on each of them.
    """
    return _certified(Problem(p, scheme_of(scheme, q, n)), most)


@claim("own-optimum-independent", independent, tol=ROUNDING, cost=15, mutants=FEW)
def optimum_independent(p: FloatArray, qs: FloatArray, most: int | None = None) -> float:
    """Both sides of the certificate meet at alpha*: independent drafts of any laws. [otspec, otspec/certificate.py]"""
    return _certified(Problem(p, Independent(qs)), most)


@claim("own-optimum-table", table, tol=ROUNDING, cost=15, mutants=FEW)
def optimum_table(p: FloatArray, drafts: IntArray, law: FloatArray, most: int | None = None) -> float:
    """Both sides of the certificate meet at alpha*: any law of the drafts. [otspec, otspec/certificate.py]"""
    return _certified(table_problem(p, drafts, law), most)


def _with_slope(rng: np.random.Generator) -> dict[str, Any]:
    scheme = str(rng.choice(["iid", "without replacement", "greedy", "top-n"]))
    return {**distinct(rng), "scheme": scheme, "slope": float(np.exp(rng.normal()))}


@claim("own-most-even", _with_slope, cost=15, mutants={"The sum does not depend on s.": {"of_slope": False}})
def most_even(p: FloatArray, q: FloatArray, n: int, scheme: str, slope: float, of_slope: bool = True) -> float:
    """Where prefixes decide, one g maximises the sum of min(g, s p) among the laws of a pick, for all s > 0. [otspec,
    otspec/certificate.py, docs/interval.md; hardy1929simple]

    Remark: So it minimises every f-divergence from p. For i.i.d. drafts, without replacement, greedy and top-n.
    """
    problem = Problem(p, scheme_of(scheme, q, n))
    drafts, probabilities = problem.scheme.support()
    sets = token_sets(p.size)
    most = float((hit_function(drafts, probabilities, p.size) + slope * (1 - sets) @ p).min())
    proposal = optimum(problem).proposal
    most = most if of_slope else float(np.minimum(proposal, p).sum())
    return -abs(float(np.minimum(proposal, slope * p).sum()) - most)


def _rival(rng: np.random.Generator) -> dict[str, Any]:
    """i.i.d. drafts, and another way to pick among them."""
    instance = small_iid(rng)
    p = positive_law(rng, instance["p"].size)
    drafts = np.array(list(np.ndindex(*(p.size,) * instance["n"])))
    return {**instance, "p": p, "weights": np.array([law(rng, instance["n"]) for _ in range(len(drafts))])}


def _divergences(p: FloatArray, g: FloatArray) -> FloatArray:
    """Total variation, Kullback-Leibler, chi-squared and squared Hellinger divergence of g from p."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logarithm = np.where(g > 0, g * np.log(g / p), 0.0)
    return np.array([np.abs(p - g).sum() / 2, logarithm.sum(), (g**2 / p).sum() - 1, 1 - np.sqrt(g * p).sum()])


@claim("own-every-divergence", _rival, Descent("weights"), cost=8, mutants={"By at least 1 %.": {"times": 1.01}})
def every_divergence(p: FloatArray, q: FloatArray, n: int, weights: FloatArray, times: float = 1.0) -> float:
    """For i.i.d. drafts g is nearest to p among the laws of all picks: in total variation, Kullback-Leibler,
    chi-squared and Hellinger divergence. [otspec, docs/interval.md, Theorem 3]
    """
    drafts = np.array(list(np.ndindex(*(p.size,) * n)))
    other = _pick_law(drafts, np.prod(q[drafts], axis=1), weights, p.size)
    best, worse = _divergences(p, optimum(Problem(p, IID(q, n))).proposal), _divergences(p, other)
    return float(((worse - times * best) / np.maximum(1.0, np.abs(worse))).min())


def _with_prepared(rng: np.random.Generator) -> dict[str, Any]:
    instance = table(rng)
    return {**instance, "prepared": int(rng.integers(1, 1 << instance["p"].size))}


@claim("own-prepared", _with_prepared, tol=1e-9, cost=5, mutants={"It gains nothing.": {"any_set": True}})
def prepared(p: FloatArray, drafts: IntArray, law: FloatArray, prepared: int, any_set: bool = False) -> float:
    """With a set G of tokens at hand beside the drafts the optimum is the least f(A) + 1 - p(A) over the sets A without
    tokens of G, so it gains nothing where a minimiser has none. [otspec, docs/rescaled_drafts.md, Theorem 4; on
    kumar2026ssd]

    Remark: Against a linear program over all rules.
    Margin: The optimum with a set of tokens beside the drafts, by a linear program, against the theorem and its bound.
    On request against the minimum over any sets, which knows nothing of what is prepared.
    """
    beside = token_sets(p.size)[prepared] > 0
    most = relaxed_program(p, members(drafts, p.size) | beside, law).solve()[0]
    hit, sets = hit_function(drafts, law, p.size), np.arange(1 << p.size)
    value = hit + 1 - token_sets(p.size) @ p
    best = int(value.argmin())
    bound = min(float(value[best & ~prepared]), 1.0)
    least = float(value.min() if any_set else value[sets & prepared == 0].min())
    return min(-abs(most - least), bound - most)
