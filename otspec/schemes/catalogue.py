"""The draft laws by name: those of this package, and those that other packages bring."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

import numpy as np

from otspec.errors import ProblemError
from otspec.extras import plugins
from otspec.laws import FloatArray
from otspec.schemes.greedy import Greedy
from otspec.schemes.hub_pairs import HubPairs
from otspec.schemes.iid import IID
from otspec.schemes.independent import Independent
from otspec.schemes.protocol import DraftScheme
from otspec.schemes.top_k import TopK
from otspec.schemes.without_replacement import WithoutReplacement

ENTRY_POINTS = "otspec.schemes"
"""Group of entry points by which other packages make their draft laws known: a name, and a function of q and n."""

Builder = Callable[[FloatArray, int], DraftScheme]
"""Makes a scheme from q, shape (V,) or (n, V), and the number of drafts n."""


def _independent(q: FloatArray, n: int) -> DraftScheme:
    if np.shape(q)[:-1] != (n,):
        raise ProblemError(f"q has shape {np.shape(q)}; independent drafts need a law for each, shape ({n}, V)")
    return Independent(q)


def _hub_pairs(q: FloatArray, n: int) -> DraftScheme:
    if n != 2:
        raise ProblemError(f"n is {n}; hub_pairs are pairs, pass n = 2")
    return HubPairs(q)


OWN: Mapping[str, Builder] = {
    "iid": IID,
    "without_replacement": WithoutReplacement,
    "greedy": Greedy,
    "top_k": TopK,
    "hub_pairs": _hub_pairs,
    "independent": _independent,
}
"""The draft laws of this package."""


@cache
def named_schemes() -> Mapping[str, Builder]:
    """Every draft law by name, each made from q and n; our own come first."""
    return {**OWN, **plugins(ENTRY_POINTS, taken=OWN)}
