"""Drafts without replacement against i.i.d. ones, at equal numbers of distinct tokens.

    python -m benchmarks.draft_laws --distinct [--positions 256] [--data shipped] [--k 10,100,1000,V]
        [--out report/draft_laws]

The target model reads each distinct token once, so that a draft that repeats another costs nothing there.  Of m i.i.d.
drafts D(m) = sum over tokens of 1 - (1 - q)**m are distinct on average, of n drafts without replacement n.  A number of
drafts that is no integer is drawn: by a coin that sees nothing else, one of the two integers next to it.  So D and the
optimal acceptance are piecewise linear in it, and what is compared could be run as it stands.

Three comparisons, all of the optimal acceptance of i.i.d. drafts less that of drafts without replacement:

* *n i.i.d.*: n i.i.d. drafts, and at every position as many without replacement as those have distinct tokens, D(n);
* *n distinct*: n drafts without replacement, and at every position as many i.i.d. ones as have n distinct tokens;
* *one m*: n drafts without replacement, and m i.i.d. ones, the same m at all positions, where D(m) is n on average.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import count

import numpy as np

import otspec
from benchmarks.measuring import laws_of
from benchmarks.reporting import Record
from otspec.data import Source
from otspec.laws import FloatArray
from otspec.reporting.console import progress_bar
from otspec.reporting.means import standard_error
from otspec.reporting.tables import TextTable
from otspec.schemes import IID, WithoutReplacement

KS = (10, 100, 1000, 0)
"""Draft tokens kept; 0 is the whole vocabulary."""
NS = (2, 3, 4, 6)
MOST_DRAWS = 1 << 20
"""Of i.i.d. drafts at one position; where they have fewer distinct tokens than wanted, that is what is compared."""

COMPARISONS = {
    "n i.i.d.": ("iid", "without_as_distinct"),
    "n distinct": ("iid_as_distinct", "without"),
    "one m": ("iid_one_m", "without"),
}
"""By what they are called: the acceptances that are compared."""


class Place:
    """One position: what so many drafts of a law accept, and how many of them are distinct."""

    def __init__(self, p: FloatArray, q: FloatArray) -> None:
        self.p, self.q = p, q
        self.iid = cache(lambda m: otspec.optimum(otspec.Problem(p, IID(q, m))).acceptance)
        self.distinct = cache(lambda m: distinct(q, m))
        self.without = cache(
            lambda n: self.iid(1) if n == 1 else otspec.optimum(otspec.Problem(p, WithoutReplacement(q, n))).acceptance
        )


def distinct(q: FloatArray, draws: int) -> float:
    """Mean number of distinct tokens among so many i.i.d. drafts."""
    certain = q >= 1.0
    return float(certain.sum() - np.expm1(draws * np.log1p(-q[~certain])).sum())


def between(value: Callable[[int], float], number: float) -> float:
    """The mean of a function of the number of drafts where a coin decides between the integers next to `number`."""
    low = int(number)
    return value(low) if low == number else value(low) + (number - low) * (value(low + 1) - value(low))


def draws_for(value: Callable[[int], float], wanted: float) -> float:
    """How many drafts it takes until an ascending function of their number, as `between` has it, is `wanted`."""
    high = next(m for m in (1 << e for e in count()) if value(m) >= wanted or m >= MOST_DRAWS)
    if value(high) < wanted:
        return float(high)
    low = 0 if high == 1 else high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if value(middle) >= wanted else (middle, high)
    before = value(low) if low else 0.0
    return low + (wanted - before) / (value(high) - before)


def measure(source: Source, positions: int, ks: Sequence[int] = KS) -> Iterator[Record]:
    """A record per position, k and n."""
    with progress_bar() as bar:
        for k in ks:
            places = [Place(*laws_of(source.position(index), k)) for index in range(positions)]
            for n in bar.track(NS, description=f"{source.name}, k = {k or 'V'}"):
                one_m = draws_for(lambda m, places=places: float(np.mean([p.distinct(m) for p in places])), n)  # type: ignore[misc]
                for index, place in enumerate(places):
                    own_m = draws_for(place.distinct, n)
                    yield {
                        "data": source.name,
                        "k": k,
                        "n": n,
                        "position": index,
                        "distinct": place.distinct(n),
                        "draws": own_m,
                        "draws_one_m": one_m,
                        "iid": place.iid(n),
                        "without": place.without(n),
                        "without_as_distinct": between(place.without, place.distinct(n)),
                        "iid_as_distinct": between(place.iid, own_m),
                        "iid_one_m": between(place.iid, one_m),
                    }


def table(name: str, records: list[Record]) -> TextTable:
    """Mean acceptances at equal n, and what i.i.d. drafts have over the others at equal numbers of distinct tokens."""
    rows: list[tuple[str, ...]] = []
    for k, n in dict.fromkeys((record["k"], record["n"]) for record in records):
        mine = [record for record in records if (record["k"], record["n"]) == (k, n)]

        def values(field: str, mine: list[Record] = mine) -> FloatArray:
            return np.array([record[field] for record in mine])

        gains = [_points(values(iid) - values(without)) for iid, without in COMPARISONS.values()]
        equal = [f"{values('iid').mean():.4f}", f"{values('without').mean():.4f}", f"{values('distinct').mean():.2f}"]
        rows.append((str(k or "V"), str(n), *equal, f"{mine[0]['draws_one_m']:.2f}", *gains))
    count = len({record["position"] for record in records})
    return TextTable(
        f"i.i.d. drafts at equal numbers of distinct tokens on {name}",
        ("k", "n", "n i.i.d.", "n distinct", "D(n)", "m", *(f"gain, {name}" for name in COMPARISONS)),
        rows,
        f"Mean over {count} positions. Gains are points of optimal acceptance of i.i.d. drafts over drafts without "
        "replacement, and their standard error.",
    )


def _points(gain: FloatArray) -> str:
    error = standard_error(gain)
    return f"{100 * gain.mean():+.2f} ± {100 * error:.2f}"
