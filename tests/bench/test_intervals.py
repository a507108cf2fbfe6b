"""Confidence intervals against normal theory."""

import math

import numpy as np
import polars as pl
import pytest

from otspec.bench import intervals
from otspec.bench.intervals import NONE, Estimate, Ratio, difference, estimate, mean, paired, quotient, ratio
from tests.oracles import Floats

Z = 1.959963984540054
SPREAD = 0.3
"""Of what prompts have of their own."""


def texts(rng: np.random.Generator, prompts: int, ratio_of_sums: float = 3.0) -> tuple[Floats, Floats]:
    """Calls, and tokens that go with them up to what each prompt has of its own."""
    calls = rng.integers(10, 40, prompts).astype(float)
    own = rng.gamma(1 / SPREAD**2, SPREAD**2, prompts)
    return ratio_of_sums * own * calls, calls


def delta(above: Floats, below: Floats) -> Floats:
    """How far each prompt pulls the logarithm of a ratio of sums, to first order."""
    return (above / above.mean() - below / below.mean()) / above.size


def test_intervals_are_those_of_the_delta_method_where_prompts_are_many() -> None:
    rng = np.random.default_rng(1)
    tokens, calls = texts(rng, 1000)
    others, other_calls = texts(rng, 1000, 2.5)
    value, their = tokens.sum() / calls.sum(), others.sum() / other_calls.sum()
    first, second = delta(tokens, calls), delta(others, other_calls)
    cases = (
        (ratio(tokens, calls), value, value * first),
        (difference(tokens, calls, others, other_calls), value - their, value * first - their * second),
        (quotient(tokens, calls, others, other_calls), value / their, value / their * (first - second)),
    )
    for found, expected, pull in cases:
        assert found.value == pytest.approx(expected)
        half = Z * np.sqrt((pull**2).sum())
        assert found.high - found.low == pytest.approx(2 * half, rel=0.05)
        assert (found.high + found.low) / 2 == pytest.approx(expected, abs=0.1 * half)
    assert intervals.ratio_error(tokens, calls) == pytest.approx(value * np.sqrt((first**2).sum()), rel=1e-3)


def test_few_prompts_and_prompts_that_are_alike() -> None:
    """Without an interval, an error or a correction; leaving out any of six halves changes a product alike."""
    ones, half = np.ones(6), np.repeat([1.0, 0.0], 3)
    assert quotient(half, ones, ones, half[::-1]) == Estimate(0.25, 0.0, 0.25)  # of k (6 - k) / 36, k from Bin(6, 1/2)
    assert (ratio(half[:5], ones[:5]).low, ratio(half[:4], ones[:4]).value) == (0.2, 0.75)
    errors = [intervals.ratio_error(half[2:][:prompts], ones[:prompts]) for prompts in (1, 2, 3)]
    assert [math.isnan(ratio(half[:4], ones[:4]).low), *map(math.isnan, errors)] == [True, True, False, False]


def test_repeats_are_summed_by_prompt_and_paired_with_those_of_others() -> None:
    rows = {"prompt": [7, 3, 7, 7], "place": [0, 0, 1, 2], "tokens": [1, 10, 100, None], "calls": [2, 20, 200, 9]}
    figure, mine = Ratio("tokens a call", pl.col("tokens"), pl.col("calls")), pl.DataFrame(rows)
    np.testing.assert_array_equal(figure.sums(mine), [[10, 101], [20, 202]])
    theirs = mine.filter(pl.col("place") == 0).with_columns(pl.col("tokens") * 2)
    np.testing.assert_array_equal(figure.sums(mine, theirs), [[10, 1], [20, 2], [20, 2], [20, 2]])
    assert estimate(figure, mine).value == 111 / 222
    assert paired(quotient, figure, mine, theirs).value == 0.5
    assert paired(quotient, figure, mine, None) == paired(quotient, figure, mine, theirs.clear()) == NONE
    assert estimate(figure, mine.clear()) == NONE


def test_the_interval_of_a_mean_is_that_of_its_variance_and_keeps_the_skew() -> None:
    rng = np.random.default_rng(3)
    groups = [texts(rng, prompts, value) for prompts, value in ((600, 2.0), (900, 3.0), (300, 5.0))]
    found = mean([ratio(*group) for group in groups])
    values = [tokens.sum() / calls.sum() for tokens, calls in groups]
    assert found.value == pytest.approx(np.mean(values))
    pulls = [value * delta(*group) for value, group in zip(values, groups, strict=True)]
    error = np.sqrt(sum((pull**2).sum() for pull in pulls)) / 3
    assert (found.low, found.high) == pytest.approx((found.value - Z * error, found.value + Z * error), rel=0.01)
    skewed = mean([Estimate(2.0, 1.0, 5.0), Estimate(4.0, 4.0, 8.0)])
    assert (skewed.value, skewed.low, skewed.high) == (3.0, 2.5, 5.5)
    assert math.isnan(mean([Estimate(2.0, 1.0, 3.0), Estimate(4.0)]).low)
    assert mean([Estimate(2.0), NONE]) is mean([]) is NONE
