"""Small parts of the machinery: inequalities, and printed numbers."""

import pytest

from otspec.proofs_check import inequality
from otspec.proofs_check.instances import pair
from otspec.proofs_check.printed import above, agreement, average, half_unit, number


def sides(a: float, b: float, more: float = 0.0) -> tuple[float, float]:
    """2 a b <= a^2 + b^2. [otspec]"""
    return 2 * a * b + more, a * a + b * b


MUTANTS = {"margin": {"left": 1.5, "right": 0.5}, "ratio": {"ratio": 0.5, "more": 6.0}}
means = inequality("means", pair, least=1e-3, mutants=MUTANTS)(sides)
in_ratio = inequality("in-ratio", pair, in_ratio=True, mutants={"half": {"ratio": 0.5}})(sides)


def test_margins_of_an_inequality_and_of_its_mutations() -> None:
    assert (means(1.0, 2.0), means.margin_of({"a": 1.0, "b": 2.0})) == ((4.0, 5.0), 1.0)
    assert [each.margin(a=1.0, b=2.0) for each in means.mutations] == [0.5 * 5 - 1.5 * 4, 0.5 - 10 / 5]
    assert (in_ratio.margin(a=1.0, b=2.0), in_ratio.mutations[0].margin(a=1.0, b=2.0)) == (1.0 - 0.8, 0.5 - 0.8)


def test_two_sides_of_nothing_are_not_tight() -> None:
    assert means.tightness is not None
    assert means.tightness(a=1.0, b=2.0) == 0.8
    assert means.tightness(a=0.0, b=0.0) == 0.0
    assert means.tightness(a=1e-2, b=1e-2) == pytest.approx(0.2)  # 2e-4, told in the least that counts


@pytest.mark.parametrize(
    ("cell", "value", "slack"),
    [("3.51", 3.51, 0.005), ("27,344", 27344, 0.5), ("-0.5", -0.5, 0.05), ("0.00", 0, 0.005)],
)
def test_a_cell_has_a_value_and_a_last_digit(cell: str, value: float, slack: float) -> None:
    assert (number(cell), half_unit(cell)) == (value, slack)


@pytest.mark.parametrize(
    ("low", "high", "inside"), [(1.2, 1.3, True), (1.24, 1.26, True), (1.26, 1.3, False), (1.0, 1.1, False)]
)
def test_a_range_agrees_where_some_of_it_rounds_to_what_is_printed(low: float, high: float, inside: bool) -> None:
    assert (agreement("1.2", low, high) >= 0) is inside


def test_a_mean_of_rounded_cells_may_be_off_by_their_rounding() -> None:
    assert average(["1.0", "2.0"], "1.5") > 0
    assert average(["1.0", "2.0"], "1.6") >= 0
    assert average(["1.0", "2.0"], "1.7") < 0


def test_a_tie_is_not_above() -> None:
    assert above("1.01", "1.00") > 0 > above("1.00", "1.00")
