"""Confidence intervals against normal theory, and against how often they hold the truth."""

import math

import numpy as np
import polars as pl
import pytest

from otspec.bench import intervals
from otspec.bench.intervals import FEWEST, NONE, Estimate, Ratio, difference, estimate, mean, paired, quotient, ratio
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


def test_ninety_five_of_a_hundred_intervals_hold_the_truth(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intervals, "RESAMPLES", 399)  # it holds of any number
    rng = np.random.default_rng(3)
    held = np.zeros(3)
    runs = 200
    for _ in range(runs):
        tokens, calls = texts(rng, 60)
        # A machine that is now and then slow, both methods alike; the other one takes 1.6 times as long a token.
        slow = rng.gamma(4, 0.25, 60)
        seconds = tokens * slow * rng.gamma(25, 0.04, 60)
        their_tokens, their_calls = texts(rng, 60, 2.5)
        their_seconds = 1.6 * their_tokens * slow * rng.gamma(25, 0.04, 60)
        found = (
            (ratio(tokens, calls), 3.0),
            (difference(tokens, calls, their_tokens, their_calls), 0.5),
            (quotient(tokens, seconds, their_tokens, their_seconds), 1.6),
        )
        held += [one.low <= truth <= one.high for one, truth in found]
    # Of 200 intervals that each hold the truth with 0.95, between 179 and 199 do with 0.9995.
    assert (held >= 179).all(), held
    assert (held <= 199).all(), held


def test_equal_prompts_leave_nothing_open() -> None:
    tokens, calls = np.full(20, 6.0), np.full(20, 3.0)
    assert ratio(tokens, calls) == Estimate(2.0, 2.0, 2.0)
    assert difference(tokens, calls, tokens, calls) == Estimate(0.0, 0.0, 0.0)
    assert quotient(tokens, calls, tokens, 2 * calls) == Estimate(2.0, 2.0, 2.0)


def test_one_prompt_that_differs_has_an_interval_all_the_same() -> None:
    tokens = np.array([6.0] * 19 + [600.0])
    found = ratio(tokens, np.full(20, 3.0))
    assert 2.0 <= found.low <= found.value <= found.high < 200


def test_few_prompts_have_none() -> None:
    few = np.arange(1.0, FEWEST)
    found = ratio(2 * few, few)
    assert found.value == 2
    assert math.isnan(found.low)
    assert math.isnan(found.high)
    assert math.isnan(ratio(np.empty(0), np.empty(0)).value)


def test_repeats_are_summed_by_prompt_and_paired_with_those_of_others() -> None:
    rows = {"prompt": [7, 3, 7, 7], "place": [0, 0, 1, 2], "tokens": [1, 10, 100, None], "calls": [2, 20, 200, 9]}
    figure, mine = Ratio("tokens a call", pl.col("tokens"), pl.col("calls")), pl.DataFrame(rows)
    np.testing.assert_array_equal(figure.sums(mine), [[10, 101], [20, 202]])
    theirs = mine.filter(pl.col("place") == 0).with_columns(pl.col("tokens") * 2)
    np.testing.assert_array_equal(figure.sums(mine, theirs), [[10, 1], [20, 2], [20, 2], [20, 2]])
    assert estimate(figure, mine).value == 111 / 222
    assert paired(quotient, figure, mine, theirs).value == 0.5
    assert paired(quotient, figure, mine, None) == estimate(figure, mine.clear()) == NONE


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
