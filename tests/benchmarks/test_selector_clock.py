"""Decoding that is led along a text takes the steps that the simulation takes; what is made of their times."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from benchmarks.selector import MENU, Paced, Simulated, Way, recorded  # noqa: E402
from benchmarks.selector_clock import Set, along, contenders, tables, timed  # noqa: E402
from otspec.decode import Goodput, Selector, StepCosts, shipped  # noqa: E402
from otspec.decode.pacing.costs import Step  # noqa: E402
from otspec.decode.pacing.goodput import Pacer  # noqa: E402
from otspec.decode.pacing.menu import USUAL, menu_of, prefixes  # noqa: E402
from otspec.paths.shape import Shape  # noqa: E402

NEW, TEMPERATURE = 40, 0.7
COSTS = StepCosts(((), (1,), (1,) * 8, (2, 2), (4, 4, 4, 4)), (5.0, 6.5, 10.5, 8.5, 12.0), look=0.5)


@cache
def text() -> Simulated:
    """What the shipped target writes after a prompt."""
    return Simulated(next(recorded(shipped.held_out(32)[:1], TEMPERATURE, NEW, 0)))


def flat() -> Selector:
    """Foretells the same after every text."""
    weights = np.zeros((len(prefixes(menu_of(USUAL))), 21))
    weights[:, 0] = [0.62 ** len(one) * (1.2 if max(one) > 1 else 1.0) for one in prefixes(menu_of(USUAL))]
    return Selector(USUAL, weights, np.zeros(5), np.ones(5))


RULES = {"by acceptance": Goodput(COSTS), "by a selector": Goodput(COSTS, selector=flat())}


@pytest.mark.parametrize("way", ["()", "(1, 1, 1)", "(2, 1, 1, 1)", "(1, 1, 4, 1, 1)", *RULES])
def test_as_many_steps_as_in_the_simulation(way: str) -> None:
    steps = list[Step]()

    def counted(step: Step) -> float:
        steps.append(step)
        return 1.0

    if way in RULES:
        text().seconds_a_token(lambda: Paced(RULES[way], MENU), counted)
        found = along(text(), TEMPERATURE, MENU[4], Pacer(RULES[way], MENU))
    else:
        shape = Shape(tuple(int(each) for each in way.strip("()").split(",") if each))
        text().seconds_a_token(lambda: Way(shape), counted)
        found = along(text(), TEMPERATURE, shape, None)
    assert found["steps"] == len(steps) > 0
    assert found["wall"] > 0 < found["cpu"]


def test_fixed_shapes_that_are_timed() -> None:
    widths = tuple(Step.of(1, shape).widths for shape in MENU)
    dear = StepCosts(((), *widths), (5.0, *(1.0 + at for at in range(len(MENU)))))
    kept = contenders([Set("one", TEMPERATURE, [text()])], {TEMPERATURE: dear})
    assert kept[0] == MENU[0]
    assert MENU[-1] not in kept


def test_steps_are_timed_for_the_pacers() -> None:
    clock = iter(range(10**9))
    costs = timed(shipped.held_out(16)[:2], TEMPERATURE, 300.0, lambda: float(next(clock)))
    assert costs.look == 1.0  # the clock ticks when it is looked at: once a step
    assert {Step.of(1, shape).widths for shape in MENU} <= set(costs.widths)
    assert set(costs.seconds) == {1.0}


def test_what_is_shown() -> None:
    seconds = {
        "(1,)": {"a": 1.0, "b": 4.0},
        "(2,)": {"a": 2.0, "b": 2.0},
        "chosen": {"a": 1.0, "b": 2.5},
    }
    records = [
        {"set": kind, "text": number, "way": way, "tokens": 10, "wall": 10 * each * slow, "cpu": 1.0}
        for slow in (1, 7, 1.5)  # the least of the repeats counts
        for way, kinds in seconds.items()
        for kind, each in kinds.items()
        for number in range(3)
    ]
    whole, each = tables(records, "wall")
    assert [row[:2] for row in whole.rows] == [("(1,)", "0.4"), ("(2,)", "0.5"), ("chosen", "0.6")]
    assert [row[2][:5] for row in whole.rows] == ["0.800", "1", "1.143"]  # 4 s over 5 s, and 4 s over 3.5 s
    assert whole.rows[2][3:] == ("0.900", "0.800")
    assert [row[:2] for row in each.rows] == [("a", "(1,)"), ("b", "(2,)")]
    assert [row[2] for row in each.rows] == ["1.000", "0.800"]
