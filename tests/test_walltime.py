"""What drafts gain in time: against the sums that the theorems are of; the claims search further."""

import pytest

from otspec import ProblemError, speed_up


@pytest.mark.parametrize(("alpha", "c"), [(0.8, 0.05), (0.5, 0.1), (0.999, 0.01), (0.3, 0.5), (0.0, 0.1), (1.0, 1.5)])
def test_the_fastest_number_of_drafts_is_the_fastest_of_all(alpha: float, c: float) -> None:
    factors = [sum(alpha**i for i in range(gamma + 1)) / (gamma * c + 1) for gamma in range(2000)]
    found = speed_up(alpha, c)
    assert found.factor == pytest.approx(max(factors), rel=1e-12)
    assert (found.gamma > 0) == (alpha > c)
    at_three = speed_up(alpha, c, 3, operations=0.2)
    assert at_three.factor == pytest.approx(factors[3])
    assert at_three.tokens == pytest.approx(1 + alpha + alpha**2 + alpha**3)
    assert at_three.operations == pytest.approx(4.6 / at_three.tokens)


def test_what_is_refused() -> None:
    for inputs, message in (
        ((1.2, 0.1), "alpha is 1.2; it is a probability"),
        ((0.5, -1.0), "c is -1.0; it is a ratio of costs"),
        ((0.5, 0.1, 0), "gamma is 0; pass an integer >= 1"),
        ((0.5, 0.1, 2, float("nan")), "operations is nan"),
        ((0.5, 0.0), "the more drafts the faster; pass gamma"),
        ((1.0, 0.5), "the more drafts the faster; pass gamma"),
    ):
        with pytest.raises(ProblemError, match=message):
            speed_up(*inputs)
