import pytest

from otspec.proofs_check import Inequality

MEANS = Inequality(lambda a, b: (2 * a * b, a * a + b * b), least=1e-3)


def test_margins_of_an_inequality_and_of_its_mutations() -> None:
    assert MEANS.margin(a=1.0, b=2.0) == 1.0
    assert MEANS.with_left(1.5)(a=1.0, b=2.0) == -1.0
    assert MEANS.with_right(0.5)(a=1.0, b=2.0) == -1.5
    assert MEANS.tightness(a=1.0, b=2.0) == 0.8
    assert MEANS.slack(a=1.0, b=2.0) == 1.0 - 0.8
    assert MEANS.with_slack(0.5)(a=1.0, b=2.0) == 0.5 - 0.8


def test_two_sides_of_nothing_are_not_tight() -> None:
    assert MEANS.tightness(a=0.0, b=0.0) == 0.0
    assert MEANS.tightness(a=1e-2, b=1e-2) == pytest.approx(0.2)  # 2e-4, told in the least that counts
    assert Inequality(lambda: (0.0, 0.0)).tightness() == 0.0
