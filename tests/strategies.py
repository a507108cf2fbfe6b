"""Hypothesis strategies for laws and capacities that are hard on sums, ratios and orders; large ones come of a seed."""

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from tests.oracles import Floats

some = settings(max_examples=60, derandomize=True, deadline=None)
"""Of a test that tries as many as these: the same ones at every run."""

AMOUNTS = st.one_of(
    st.just(0.0),
    st.sampled_from([5e-324, 1e-310, 1e-300, 1e-150, 5e-14, 1e-12, 0.25, 0.5, 1.0, 2.0, 3.0]),  # ties among them
    st.floats(0.0, 1.0),
    st.floats(-14.0, 2.0).map(lambda exponent: 10.0**exponent),
)


def amounts(size: int) -> st.SearchStrategy[Floats]:
    """Numbers >= 0 that tie, vanish, underflow, or differ by 300 orders of magnitude."""
    kinds = AMOUNTS, st.integers(0, 4).map(float), st.sampled_from([1e-300, 1.0])
    lists = st.one_of(*(st.lists(kind, min_size=size, max_size=size) for kind in kinds))
    return lists.map(lambda values: np.array(values, dtype=np.float64))


@st.composite
def laws(draw: st.DrawFn, size: int, likely: int | None = None) -> Floats:
    """A law with zeros, ties, points and tails, at times in float32; which token is likely may be said."""
    weights = draw(amounts(size))
    weights[draw(st.integers(0, size - 1)) if likely is None else likely] += 1.0
    law = weights / weights.sum()
    return law.astype(np.float32).astype(np.float64) if draw(st.booleans()) else law
