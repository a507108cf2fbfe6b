"""What the scripts share: acceptance over (k, n), and results that a person can read and a program too."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

import otspec
from benchmarks.reporting import Record
from benchmarks.timing import laws_of
from otspec.data import Source
from otspec.data.recorded import TopSource
from otspec.laws import FloatArray
from otspec.problem import Problem
from otspec.reporting.console import progress_bar
from otspec.reporting.published import ACCEPTANCE
from otspec.schemes import IID, Greedy

KS = (10, 100, 1000, 10_000, 100_000, 0)
"""Draft tokens kept in the paper's figures; 0 is the whole vocabulary."""
NS = tuple(range(1, 11))
"""Drafts per position in the paper's figures."""

ANCHORS = {
    profile: {
        (10, 2): within[10]["General LP"] / 100,
        (10, 3): within[10]["Max-flow"] / 100,
        (100, 2): within[100]["Max-flow"] / 100,
    }
    for profile, within in ACCEPTANCE.items()
}
"""Acceptances that the paper prints: the best of its baselines under a time limit [thomas2025global, Table 2].

Which (k, n) reached them is read off its Tables 1 and 3.
"""


def ks_of(source: Source, ks: Sequence[int] = KS) -> list[int]:
    """Those numbers of draft tokens that a source has: where a file has the likeliest alone, up to these."""
    if not isinstance(source, TopSource):
        return list(ks)
    return [*(k for k in ks if 0 < k < source.known), source.known]


def temperatures_of(source: Source, temperatures: Sequence[float]) -> list[float]:
    """Those temperatures of the target that a source has."""
    return [one for one in temperatures if not isinstance(source, TopSource) or one in source.temperatures]


def ks_in(records: Iterable[Record]) -> list[int]:
    """The numbers of draft tokens of records, in their order."""
    return list(dict.fromkeys(record["k"] for record in records))


def label(k: int) -> str:
    """A truncation as the paper writes it."""
    return f"k = {k}" if k else "k = V"


def acceptances(
    source: Source, positions: int, laws: Sequence[str] = ("iid",), temperature: float = 1.0
) -> Iterator[Record]:
    """A record per position, k, n and draft law: the acceptance that is reached, and the certified bound on any.

    Parameters
    ----------
    source : Source
    positions : int
    laws : sequence of str
        ``iid``, solved by `interval`, and ``greedy``, solved in closed form.
    temperature : float
        Of the target; the draft's stays 1, as in the paper.
    """
    with progress_bar() as bar:
        for index in bar.track(range(positions), description=f"{source.name}, temperature {temperature:g}"):
            position = source.position(index)
            for k in ks_of(source):
                p, q = laws_of(position, k, temperature)
                for n in NS:
                    for law in laws:
                        acceptance, bound = LAWS[law](p, q, n)
                        yield {
                            "data": source.name,
                            "temperature": temperature,
                            "law": law,
                            "k": k,
                            "n": n,
                            "position": index,
                            "acceptance": acceptance,
                            "bound": bound,
                        }


def _solved(scheme: type[IID | Greedy], solver: str) -> Callable[[FloatArray, FloatArray, int], tuple[float, float]]:
    def figures(p: FloatArray, q: FloatArray, n: int) -> tuple[float, float]:
        plan = otspec.solve(Problem(p, scheme(q, n)), solver).plan
        assert plan is not None
        return plan.acceptance, plan.bound

    return figures


LAWS = {"iid": _solved(IID, "interval"), "greedy": _solved(Greedy, "closed_form")}
"""Acceptance and bound of a draft law, for target p, draft q and n."""


def mean(records: Iterable[Record], **where: object) -> float:
    """Mean acceptance of the records with these entries."""
    return float(np.mean(accepted(records, **where)))


def accepted(records: Iterable[Record], **where: object) -> list[float]:
    """Acceptances of the records with these entries."""
    return [r["acceptance"] for r in records if all(r[name] == value for name, value in where.items())]


def worst_gap(records: Iterable[Record]) -> float:
    """Largest certified distance of a record's acceptance from the optimum."""
    return max(abs(record["bound"] - record["acceptance"]) for record in records)
