"""Hit functions, the laws that a pick among the drafts can have, and the certificate that they make."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from otspec.certificate import optimum
from otspec.laws import FloatArray, IntArray, sum_by
from otspec.plans.figures import residual_law
from otspec.problem import Problem
from otspec.proofs_check.claim import Claim, Mutation
from otspec.proofs_check.instances import (
    distinct,
    iid,
    independent,
    law,
    positive_law,
    table,
    table_problem,
)
from otspec.proofs_check.oracles import (
    inside,
    members,
    prefixes,
    relaxed_program,
    submodularity,
    token_sets,
    transport,
)
from otspec.proofs_check.search import Descent
from otspec.schemes import (
    IID,
    DraftScheme,
    Greedy,
    Independent,
    Support,
    TopK,
    WithoutReplacement,
)
from otspec.tolerances import TIE_TOL

ROUNDING = 10 * TIE_TOL
"""Of a certificate: tokens within `TIE_TOL` of a tie count as tied, which moves the bound by as much, at most each."""


def hit_function(drafts: IntArray, law: FloatArray, vocab: int) -> FloatArray:
    """f(A) = P(some draft in A) of every token set, shape (2**V,)."""
    return 1.0 - inside(drafts, law, vocab)[::-1]  # the complement of A stands at its place from the end


def _submodularity(p: FloatArray, drafts: IntArray, law: FloatArray) -> float:
    return submodularity(hit_function(drafts, law, p.size))


def _supermodularity(p: FloatArray, drafts: IntArray, law: FloatArray) -> float:
    return submodularity(-hit_function(drafts, law, p.size))


def _picking(rng: np.random.Generator) -> dict[str, Any]:
    """A problem, and for every tuple the law of which draft is picked."""
    instance = table(rng, largest=4)
    count, n = instance["drafts"].shape
    return {**instance, "weights": np.array([law(rng, n) for _ in range(count)])}


def _pick_law(drafts: IntArray, law: FloatArray, weights: FloatArray, vocab: int) -> FloatArray:
    return sum_by(drafts.ravel(), (law[:, None] * weights).ravel(), vocab)


def _base(p: FloatArray, drafts: IntArray, law: FloatArray, weights: FloatArray) -> float:
    picked = token_sets(p.size) @ _pick_law(drafts, law, weights, p.size)
    return float((hit_function(drafts, law, p.size) - picked).min())


def _base_of_less(p: FloatArray, drafts: IntArray, law: FloatArray, weights: FloatArray) -> float:
    """Margin of: g(A) <= 0.95 f(A) for A that are not all tokens."""
    picked = token_sets(p.size)[:-1] @ _pick_law(drafts, law, weights, p.size)
    return float((0.95 * hit_function(drafts, law, p.size)[:-1] - picked).min())


def _attained(p: FloatArray, drafts: IntArray, law: FloatArray, most: int | None = None) -> float:
    """Here p is the law that a pick should have; with A of at most so many tokens."""
    sets = token_sets(p.size)
    beyond = sets @ p - hit_function(drafts, law, p.size)
    out_of_reach = float(beyond[sets.sum(axis=1) <= (p.size if most is None else most)].max())
    served = transport(p, members(drafts, p.size), law)
    return -abs(float(served.sum()) - (1 - out_of_reach))


def _ordered(rng: np.random.Generator) -> dict[str, Any]:
    instance = table(rng)
    return {**instance, "order": rng.permutation(instance["p"].size)}


def _vertex(p: FloatArray, drafts: IntArray, law: FloatArray, order: IntArray) -> float:
    rises = np.diff(hit_function(drafts, law, p.size)[prefixes(order)])
    return -float(np.abs(Support(drafts, law).priority_law(order)[order] - rises).max())


def _vertex_backwards(p: FloatArray, drafts: IntArray, law: FloatArray, order: IntArray) -> float:
    rises = np.diff(hit_function(drafts, law, p.size)[prefixes(order[::-1])])[::-1]
    return -float(np.abs(Support(drafts, law).priority_law(order)[order] - rises).max())


def _verified(p: FloatArray, drafts: IntArray, law: FloatArray, weights: FloatArray, from_p: bool = False) -> float:
    """Output law of the rule, tuple by tuple: pick x, accept it with probability min(1, p/g), else draw (p - g)+."""
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


def _sandwich(
    p: FloatArray,
    drafts: IntArray,
    law: FloatArray,
    weights: FloatArray,
    tokens: IntArray,
    below: float = 1.0,
    above: float = 1.0,
) -> float:
    """With so many times the lower and the upper bound."""
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


def _certificate(p: FloatArray, q: FloatArray, n: int, scheme: str, most: int | None = None) -> float:
    return _certified(Problem(p, scheme_of(scheme, q, n)), most)


def _certificate_independent(p: FloatArray, qs: FloatArray, most: int | None = None) -> float:
    return _certified(Problem(p, Independent(qs)), most)


def _certificate_table(p: FloatArray, drafts: IntArray, law: FloatArray, most: int | None = None) -> float:
    return _certified(table_problem(p, drafts, law), most)


def _with_slope(rng: np.random.Generator) -> dict[str, Any]:
    scheme = str(rng.choice(["iid", "without replacement", "greedy", "top-n"]))
    return {**distinct(rng), "scheme": scheme, "slope": float(np.exp(rng.normal()))}


def _most_even(p: FloatArray, q: FloatArray, n: int, scheme: str, slope: float) -> float:
    problem = Problem(p, scheme_of(scheme, q, n))
    drafts, probabilities = problem.scheme.support()
    sets = token_sets(p.size)
    most = float((hit_function(drafts, probabilities, p.size) + slope * (1 - sets) @ p).min())
    return -abs(float(np.minimum(optimum(problem).proposal, slope * p).sum()) - most)


def _same_hits(p: FloatArray, q: FloatArray, n: int, scheme: str, slope: float) -> float:
    """Margin of: g accepts as often from s p as from p."""
    proposal = optimum(Problem(p, scheme_of(scheme, q, n))).proposal
    return -abs(float(np.minimum(proposal, slope * p).sum() - np.minimum(proposal, p).sum()))


def _rival(rng: np.random.Generator) -> dict[str, Any]:
    """i.i.d. drafts, and another way to pick among them."""
    instance = iid(rng, largest=4, most=3)
    p = positive_law(rng, instance["p"].size)
    drafts = np.array(list(np.ndindex(*(p.size,) * instance["n"])))
    return {**instance, "p": p, "weights": np.array([law(rng, instance["n"]) for _ in range(len(drafts))])}


def _divergences(p: FloatArray, g: FloatArray) -> FloatArray:
    """Total variation, Kullback-Leibler, chi-squared and squared Hellinger divergence of g from p."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logarithm = np.where(g > 0, g * np.log(g / p), 0.0)
    return np.array([np.abs(p - g).sum() / 2, logarithm.sum(), (g**2 / p).sum() - 1, 1 - np.sqrt(g * p).sum()])


def _nearest(p: FloatArray, q: FloatArray, n: int, weights: FloatArray, times: float = 1.0) -> float:
    drafts = np.array(list(np.ndindex(*(p.size,) * n)))
    other = _pick_law(drafts, np.prod(q[drafts], axis=1), weights, p.size)
    best, worse = _divergences(p, optimum(Problem(p, IID(q, n))).proposal), _divergences(p, other)
    return float(((worse - times * best) / np.maximum(1.0, np.abs(worse))).min())


def _prepared(p: FloatArray, drafts: IntArray, law: FloatArray, prepared: int, any_set: bool = False) -> float:
    """The optimum with a set of tokens beside the drafts, by a linear program, against the theorem and its bound.

    On request against the minimum over any sets, which knows nothing of what is prepared.
    """
    beside = token_sets(p.size)[prepared] > 0
    most = relaxed_program(p, members(drafts, p.size) | beside, law).solve()[0]
    hit, sets = hit_function(drafts, law, p.size), np.arange(1 << p.size)
    value = hit + 1 - token_sets(p.size) @ p
    best = int(value.argmin())
    bound = min(float(value[best & ~prepared]), 1.0)
    told = float(value.min() if any_set else value[sets & prepared == 0].min())
    return min(-abs(most - told), bound - most)


def _with_prepared(rng: np.random.Generator) -> dict[str, Any]:
    instance = table(rng)
    return {**instance, "prepared": int(rng.integers(1, 1 << instance["p"].size))}


CLAIMS = (
    Claim(
        "hit-submodular",
        "The hit function f(A) = P(some draft in A) is submodular, whatever the law of the drafts.",
        "otspec; thomas2025global, Theorem C.1 has it for independent drafts",
        table,
        _submodularity,
        remark="P(all drafts in H) is a mixture of indicators of A in H over draft sets A, each supermodular.",
        mutations=(Mutation("It is modular.", _supermodularity),),
    ),
    Claim(
        "own-pick-is-base",
        "Whatever the rule, the law g of a picked draft has g(A) <= f(A) for every token set A.",
        "otspec, docs/draft_laws.md, Theorem 1; edmonds1970submodular",
        _picking,
        _base,
        search=Descent(laws=("law", "weights")),
        cost=3,
        mutations=(Mutation("g(A) <= 0.95 f(A), of A that are not all tokens.", _base_of_less),),
    ),
    Claim(
        "own-base-is-pick",
        "Every law g with g(A) <= f(A) for all A is the law of some pick; for others, what no pick can serve is the "
        "largest g(A) - f(A).",
        "otspec, docs/draft_laws.md, Theorem 1; strassen1965existence",
        table,
        _attained,
        cost=5,
        mutations=(Mutation("For A of one token.", lambda **instance: _attained(**instance, most=1)),),
    ),
    Claim(
        "own-orders-are-vertices",
        "Picking the draft that comes first in an order gives token v_i what f gains from the i-th prefix.",
        "otspec, docs/without_replacement.md, Lemma 4; edmonds1970submodular",
        _ordered,
        _vertex,
        cost=2,
        mutations=(Mutation("The order reversed.", _vertex_backwards),),
    ),
    Claim(
        "own-pick-lossless",
        "Pick a draft by any rule of law g, accept it with probability min(1, p/g), else draw from (p - g)+: the "
        "output has law p.",
        "otspec, docs/interval.md; khisti2025multi; chen2023accelerating",
        _picking,
        _verified,
        search=Descent(laws=("p", "law", "weights")),
        cost=3,
        mutations=(Mutation("Else draw from p.", lambda **instance: _verified(**instance, from_p=True)),),
    ),
    Claim(
        "own-certificate",
        "For every law g of a pick and every H: sum of min(p, g) <= alpha* <= P(some draft outside H) + p(H).",
        "otspec, otspec/certificate.py; hu2025towards",
        _with_set,
        _sandwich,
        search=Descent(laws=("p", "law", "weights")),
        cost=5,
        remark="alpha* is the value of a maximum flow here.",
        mutations=(
            Mutation("1.01 times the sum.", lambda **instance: _sandwich(**instance, below=1.01)),
            Mutation("0.99 times the upper bound.", lambda **instance: _sandwich(**instance, above=0.99)),
        ),
    ),
    Claim(
        "own-optimum",
        "Both sides of the certificate meet at alpha*: i.i.d. drafts, without replacement, greedy, top-n.",
        "otspec, otspec/certificate.py",
        _drafting,
        _certificate,
        tol=ROUNDING,
        cost=15,
        remark="alpha* is the least over all token sets; that g is the law of a pick is checked on each of them.",
        mutations=(
            Mutation(
                "At the least over sets of at most one token.", lambda **instance: _certificate(**instance, most=1)
            ),
        ),
    ),
    Claim(
        "own-optimum-independent",
        "Both sides of the certificate meet at alpha*: independent drafts of any laws.",
        "otspec, otspec/certificate.py",
        independent,
        _certificate_independent,
        tol=ROUNDING,
        cost=15,
        mutations=(
            Mutation(
                "At the least over sets of at most one token.",
                lambda **instance: _certificate_independent(**instance, most=1),
            ),
        ),
    ),
    Claim(
        "own-optimum-table",
        "Both sides of the certificate meet at alpha*: any law of the drafts.",
        "otspec, otspec/certificate.py",
        table,
        _certificate_table,
        tol=ROUNDING,
        cost=15,
        mutations=(
            Mutation(
                "At the least over sets of at most one token.",
                lambda **instance: _certificate_table(**instance, most=1),
            ),
        ),
    ),
    Claim(
        "own-most-even",
        "Where prefixes decide, one g maximises the sum of min(g, s p) among the laws of a pick, for all s > 0.",
        "otspec, otspec/certificate.py, docs/interval.md; hardy1929simple",
        _with_slope,
        _most_even,
        cost=15,
        remark="So it minimises every f-divergence from p. For i.i.d. drafts, without replacement, greedy and top-n.",
        mutations=(Mutation("The sum does not depend on s.", _same_hits),),
    ),
    Claim(
        "own-every-divergence",
        "For i.i.d. drafts g is nearest to p among the laws of all picks: in total variation, Kullback-Leibler, "
        "chi-squared and Hellinger divergence.",
        "otspec, docs/interval.md, Theorem 3",
        _rival,
        _nearest,
        search=Descent(laws=("weights",)),
        cost=8,
        mutations=(Mutation("By at least 1 %.", lambda **instance: _nearest(**instance, times=1.01)),),
    ),
    Claim(
        "own-prepared",
        "With a set G of tokens at hand beside the drafts the optimum is the least f(A) + 1 - p(A) over the sets A "
        "without tokens of G, so it gains nothing where a minimiser has none.",
        "otspec, docs/rescaled_drafts.md, Theorem 4; on kumar2026ssd",
        _with_prepared,
        _prepared,
        tol=1e-9,
        cost=5,
        remark="Against a linear program over all rules.",
        mutations=(Mutation("It gains nothing.", lambda **instance: _prepared(**instance, any_set=True)),),
    ),
)
