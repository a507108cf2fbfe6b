"""What the questions range over: draft laws, the rules that are made for them, truncations and numbers of drafts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product

from benchmarks.measuring import laws_of
from benchmarks.reporting import Record
from otspec.certificate import optimum
from otspec.data import Source
from otspec.laws import FloatArray
from otspec.problem import Problem
from otspec.schemes import IID, DraftScheme, Greedy, HubPairs, TopK, WithoutReplacement
from otspec.solving import solve

Make = Callable[[FloatArray, int], DraftScheme]
"""From the law q, shape (V,), and n to the law of the drafts."""


def hub_pairs(q: FloatArray, n: int) -> HubPairs:
    """Pairs, whatever n."""
    return HubPairs(q)


IID_DRAFTS, DISTINCT = "i.i.d.", "without replacement"
SCHEMES: dict[str, Make] = {
    IID_DRAFTS: IID,
    "greedy": Greedy,
    "top-n": TopK,
    DISTINCT: WithoutReplacement,
    "hub pairs": hub_pairs,
}
"""Draft laws by name."""
MADE_FOR = {
    "single": IID_DRAFTS,
    "naive": IID_DRAFTS,
    "rrs": IID_DRAFTS,
    "kseq": IID_DRAFTS,
    "rsd": DISTINCT,
    "spechub": "hub pairs",
}
"""Published rules by their names in the registry, with the drafts they are made for."""
OPTIMUM = "optimum"
"""In place of a rule: the best for its draft law, certified by `otspec.optimum`."""


def acceptances(
    source: Source, positions: int, ks: Sequence[int], ns: Sequence[int], series: Sequence[tuple[str, str]]
) -> Iterator[Record]:
    """A record per position, k, n, draft law and rule; nothing where the law does not have so many drafts.

    Parameters
    ----------
    source : Source
    positions : int
        How many, from the first on.
    ks, ns : sequence of int
        Draft tokens kept, 0 for the whole vocabulary; and drafts.
    series : sequence of (str, str)
        Draft law and rule.
    """
    for index, k in product(range(positions), ks):
        p, q = laws_of(source.position(index), k)
        for n, (law, rule) in product(ns, series):
            if _has(law, n):
                place = {"data": source.name, "k": k, "n": n, "law": law, "rule": rule, "position": index}
                yield place | _acceptance(Problem(p, SCHEMES[law](q, n)), rule)


def _has(law: str, n: int) -> bool:
    """Hub pairs are two drafts; one draft is the same in all laws, so only the first has it."""
    return n == 2 if law == "hub pairs" else n > 1 or law == IID_DRAFTS


def _acceptance(problem: Problem, rule: str) -> Record:
    if rule == OPTIMUM:
        best = optimum(problem)
        return {"acceptance": best.acceptance, "bound": best.bound}
    plan = solve(problem, rule).plan
    assert plan is not None
    return {"acceptance": plan.acceptance, "bound": plan.bound}
