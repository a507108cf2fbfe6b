"""What rounding may hide in a printed number."""

import pytest

from otspec.proofs_check.printed import above, agreement, average, half_unit, number


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
