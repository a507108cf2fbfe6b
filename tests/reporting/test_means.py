"""What is told of two samples, against Welch's formula written out."""

import math

from otspec.reporting.means import welch


def test_welchs_test_is_the_formula() -> None:
    t, p = welch([1.0, 2.0, 3.0], [5.0, 6.0, 10.0])
    assert t == f"{-5 / math.sqrt(1 / 3 + 7 / 3):.2f}"
    assert 0.05 < float(p) < 0.1  # 2.4 degrees of freedom


def test_samples_of_one_and_of_no_spread_are_not_tested() -> None:
    assert welch([1.0], [2.0, 3.0]) == welch([1.0, 1.0], [1.0, 1.0]) == ("-", "-")
