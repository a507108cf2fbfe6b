"""The interval rule for i.i.d. drafts, step by step: docs/interval.md."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from otspec.kernels.interval.picking import contribution_to, enters
from otspec.laws import FloatArray, sum_by
from otspec.plans import Pick
from otspec.plans.place_rule import PlaceRule
from otspec.proofs_check.claims import claim
from otspec.proofs_check.instances import iid, iid_problem, small_iid
from otspec.proofs_check.oracles import iid_optimum
from otspec.proofs_check.own.hits import ROUNDING
from otspec.solving import solve


def _plan(p: FloatArray, q: FloatArray, n: int) -> tuple[Pick, PlaceRule]:
    plan = solve(iid_problem(p, q, n), "interval", strict=False).plan
    assert isinstance(plan, Pick)
    assert isinstance(plan.rule, PlaceRule)
    return plan, plan.rule


def _measures(q: FloatArray, n: int) -> FloatArray:
    """C_j^n of the cumulative sums, from C_0 = 0 on."""
    return np.append(0.0, np.cumsum(q) / q.sum()) ** n


@claim("own-interval-blocks", iid, cost=8, mutants={"The points (P_j, C_j^(n+1)).": {"more": 1}})
def interval_blocks(p: FloatArray, q: FloatArray, n: int, more: int = 0) -> float:
    """g follows the least concave majorant of the points (P_j, C_j^n): above them, on them where blocks end, in each
    block a multiple of p, with slopes that fall. [otspec, docs/interval.md, Definition 2]
    """
    plan, rule = _plan(p, q, n)
    order, ends = rule.places.order, rule.places.block
    targets, g = plan.problem.p[order], rule.places.proposal
    reached, measure = np.append(0.0, np.cumsum(g)), _measures(q[order], n + more)
    errors = [float((measure - reached).max()), float(np.abs((measure - reached)[ends]).max())]
    slopes = []
    for start, end in pairwise(ends):
        served, due = g[start:end].sum(), targets[start:end].sum()
        if due > 0:
            errors.append(float(np.abs(g[start:end] - served * targets[start:end] / due).max()))
            slopes.append(served / due)
    falling = all(later <= earlier * (1 + 1e-9) for earlier, later in pairwise(slopes))
    return -max(errors) if falling else -1.0


@claim("own-interval-majorised", iid, cost=8, mutants={"By (n - 1) u^(n-2), for n > 1.": {"fewer": 1}})
def interval_majorised(p: FloatArray, q: FloatArray, n: int, fewer: int = 0) -> float:
    """In each block g/q ascends, and the lowest tokens never have less of g than their places weigh: g/q is majorised
    by n u^(n-1). [otspec, docs/interval.md, Lemma 3; hardy1929simple]

    Margin: Along ascending density the places of a block are worth less than what its tokens should have, up to the
    end.
    """
    _, rule = _plan(p, q, n)
    places = rule.places
    measure = np.diff(_measures(places.size, max(n - fewer, 1)))
    margins = []
    for start, end in pairwise(places.block):
        block = slice(start, end)
        margins.append(float(np.cumsum(places.proposal[block] - measure[block]).min()))
        ratio = places.proposal[block] / places.size[block]
        margins.append(float((np.diff(ratio) * np.minimum(places.size[block][1:], 1.0)).min(initial=0.0)))
    return min(margins)


@claim(
    "own-interval-lotteries",
    lambda rng: iid(rng, largest=7),
    cost=10,
    mutants={"No token stakes more than half of its place.": {"share": 0.5}},
)
def interval_lotteries(p: FloatArray, q: FloatArray, n: int, share: float = 1.0) -> float:
    """No token stakes more than its place, and drafts enter lotteries with just the share that is staked; at the
    lotteries' mean densities every token owns its g. [otspec, docs/interval.md, Definition 3]

    Margin: What every token owns, put together from the contributions, with densities from differences of powers.
    """
    _, rule = _plan(p, q, n)
    places = rule.places
    density = np.diff(_measures(places.size, n)) / (places.size / places.size.sum())
    kept, owned = places.size.copy(), np.zeros(places.size.size)
    margins = [0.0]
    for h in range(places.first_recipient.size):
        ranks = [
            rank
            for rank in range(places.first_recipient[h], places.donors_end[h])
            if places.exchange[rank] == h or enters(places, h, rank)
        ]
        parts = np.array([contribution_to(places, h, rank) for rank in ranks])
        held = float(parts.sum())
        margins += [float(parts.min()), -abs(held - places.contributed[h])]
        kept[ranks] -= parts
        if held > 0:
            owned[ranks] += parts * float(parts @ density[ranks] / held)
    owned += kept * density
    margins += [float((kept - (1 - share) * places.size).min()), -float(np.abs(owned - places.proposal).max())]
    margins.append(-float(np.abs(kept - places.size * (1 - places.share)).max()))
    return min(margins)


def _enumerated(plan: Pick) -> tuple[FloatArray, float, FloatArray, float]:
    """Output law, P(the output is a draft), law of the pick, and the worst conditional law, over all tuples."""
    output, member, worst = np.zeros(plan.problem.vocab), 0.0, 0.0
    drafts, probabilities = plan.problem.scheme.support()
    weights = np.array([plan.rule.weights(row) for row in drafts])
    for row, probability in zip(drafts, probabilities, strict=True):
        law = plan.conditional(row)
        output += probability * law
        member += probability * float(law[np.unique(row)].sum())
        worst = max(worst, -float(law.min()), abs(float(law.sum()) - 1))
    picked = sum_by(drafts.ravel(), (probabilities[:, None] * weights).ravel(), plan.problem.vocab)
    return output, member, picked, worst


@claim("own-interval-pick", small_iid, cost=40, mutants={"It has the law q.": {"of_q": True}})
def interval_pick(p: FloatArray, q: FloatArray, n: int, of_q: bool = False) -> float:
    """The draft that shows the largest point has the law g. [otspec, docs/interval.md, Lemma 2]

    Remark: Over all tuples, with the exact probabilities of the pick.
    """
    plan, rule = _plan(p, q, n)
    return -float(np.abs(_enumerated(plan)[2] - (q if of_q else rule.proposal)).sum())


@claim("own-interval-lossless", small_iid, cost=40, mutants={"So has the picked draft.": {"picks": True}})
def interval_lossless(p: FloatArray, q: FloatArray, n: int, picks: bool = False) -> float:
    """The output of interval has the law p. [otspec, docs/interval.md, Theorem 1]

    Remark: Over all tuples.
    """
    plan, _ = _plan(p, q, n)
    output, _, picked, worst = _enumerated(plan)
    return -max(worst, float(np.abs((picked if picks else output) - plan.problem.p).sum()))


@claim(
    "own-interval-optimal",
    small_iid,
    tol=ROUNDING,
    cost=40,
    mutants={"With probability alpha* of n + 1 drafts.": {"more": 1}},
)
def interval_optimal(p: FloatArray, q: FloatArray, n: int, more: int = 0) -> float:
    """interval accepts with probability alpha*. [otspec, docs/interval.md, Theorem 2]

    Remark: P(the output is a draft), over all tuples, against all token sets.
    Margin: Against alpha* of so many drafts more.
    """
    plan, _ = _plan(p, q, n)
    alpha = iid_optimum(p, q, n + more)
    return -max(abs(_enumerated(plan)[1] - alpha), abs(plan.acceptance - alpha), abs(plan.bound - alpha))
