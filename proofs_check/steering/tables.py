"""What the text says of Tables 1, 3 and 5, computed from their cells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import stdtr

from otspec.laws import FloatArray
from otspec.proofs_check.claims import claim
from otspec.proofs_check.printed import above, agreement, average, half_unit, number, numbers, shifted, table
from otspec.proofs_check.search import Instance

EFFICIENCY, SPEEDUP = table("steering", "efficiency"), table("steering", "speedup")
DEVIATION, WELCH_T, WELCH_P = (table("steering", name) for name in ("deviation", "welch_t", "welch_p"))
TASKS = ("UltraChat", "HumanEval", "XSum", "Alpaca", "GSM8K")
MODELS = ("Vicuna 1.3 13B", "Qwen3 14B", "Qwen3 8B", "Llama 3.1 8B")
VICUNA, LLAMA = MODELS[0], MODELS[-1]
BOTH = ("T = 1", "T = 0")


def _pairs(
    more: str,
    less: str,
    temperatures: Sequence[str] = ("T = 1",),
    tasks: Sequence[str] = TASKS,
    models: Sequence[str] = MODELS,
    cells: dict[str, dict[str, str]] = EFFICIENCY,
) -> list[Instance]:
    """Two methods, cell by cell."""
    return [
        {"where": f"{place}, {task}", "more": cells[f"{place}, {more}"][task], "less": cells[f"{place}, {less}"][task]}
        for place in (f"{temperature}, {model}" for temperature in temperatures for model in models)
        for task in tasks
    ]


ALIGNED: dict[str, Any] = {"tasks": ("HumanEval", "GSM8K"), "models": MODELS[1:]}
"""Where the pretrained drafter fits its model."""


def _not_below(where: str, more: str, less: str) -> float:
    return number(more) - number(less)


def _ratio(over: FloatArray, under: FloatArray, slack: float) -> FloatArray:
    """Smallest and largest ratio of numbers that are known up to a slack, in percent above 1, shape (2, ...)."""
    return 100 * (np.array([(over - slack) / (under + slack), (over + slack) / (under - slack)]) - 1)


def _percent(what: str, more: str, less: str, offset: int, printed: str, units: int = 0) -> float:
    over, under = numbers([more, less]) - offset
    return agreement(shifted(printed, units), *_ratio(over, under, half_unit(more)))


def _average_increase(more: list[str], less: list[str], printed: str, units: int = 0) -> float:
    """The best agreement of six averages: at T = 1, T = 0 and both; of ratios, and as a ratio of means."""
    over, under, slack = numbers(more) - 1, numbers(less) - 1, half_unit(more[0])
    half = len(more) // 2
    found: list[FloatArray] = []
    for rows in (slice(None, half), slice(half, None), slice(None)):
        found.append(_ratio(over[rows], under[rows], slack).mean(axis=1))
        found.append(_ratio(over[rows].mean(), under[rows].mean(), slack))
    return max(agreement(shifted(printed, units), *ends) for ends in found)


def _increase_over(method: str, printed: str) -> Instance:
    places = [f"{temperature}, {model}" for temperature in BOTH for model in MODELS]
    more, less = ([EFFICIENCY[f"{place}, {each}"]["mean"] for place in places] for each in ("SD^2", method))
    return {"more": more, "less": less, "printed": printed}


def _mean_speedups(temperature: str, method: str) -> list[str]:
    return [SPEEDUP[f"{temperature}, {model}, {method}"]["mean"] for model in MODELS]


def _speedups(printed: dict[str, str]) -> list[Instance]:
    return [
        {"temperature": temperature, "cells": _mean_speedups(temperature, "SD^2"), "printed": percent}
        for temperature, percent in printed.items()
    ]


def _mean_speedup(temperature: str, cells: list[str], printed: str, units: int = 0) -> float:
    found, slack = 100 * (float(numbers(cells).mean()) - 1), 100 * half_unit(cells[0])
    return agreement(shifted(printed, units), found - slack, found + slack)


def _gain(temperature: str, model: str, less: str, offset: int, printed: str) -> Instance:
    what = f"tau{' - 1' if offset else ''}, {temperature}, {model}, SD^2 over {less}"
    more, under = (EFFICIENCY[f"{temperature}, {model}, {method}"]["mean"] for method in ("SD^2", less))
    return {"what": what, "more": more, "less": under, "offset": offset, "printed": printed}


def _faster(temperature: str, method: str, task: str, printed: str) -> Instance:
    row = f"{temperature}, {VICUNA}, {method}"
    return {
        "what": f"alpha, {row}, {task}",
        "more": SPEEDUP[row][task],
        "less": "1.00",
        "offset": 0,
        "printed": printed,
    }


@claim(
    "steering-means",
    [
        {"row": row, "cells": [cells[task] for task in TASKS], "mean": cells["mean"]}
        for row, cells in EFFICIENCY.items()
    ],
    mutants={"Two units in the last place more.": {"units": 2}},
)
def means(**row: Any) -> float:
    """The mean block efficiencies of Tables 1 and 5 are the means of their rows. [berdozsteering, Tables 1 and 5]"""
    return average(**row)


@claim("steering-above-distilled", _pairs("SD^2", "distilled"), mutants={"By at least 0.1.": {"by": 0.095}})
def above_distilled(**pair: Any) -> float:
    """SD^2 always achieves higher block efficiency than its distilled counterpart. [berdozsteering, Table 1]"""
    return above(**pair)


@claim(
    "steering-faster-than-distilled",
    _pairs("SD^2", "distilled", cells=SPEEDUP),
    counterexample={"where": "T = 1, Qwen3 8B, HumanEval", "more": "0.99", "less": "0.99"},
)
def faster_than_distilled(**pair: Any) -> float:
    """SD^2 consistently achieves greater throughput than its distilled counterpart. [berdozsteering, Table 1, caption]

    Instead: At least the same: greater in 19 of 20 cells, and equal, as printed, in this one.
    """
    return above(**pair)


@claim(
    "steering-matches-pretrained",
    _pairs("SD^2", "pretrained", BOTH),
    counterexample={"where": "T = 1, Llama 3.1 8B, GSM8K", "more": "5.44", "less": "5.62"},
)
def matches_pretrained(**pair: Any) -> float:
    """Across all datasets SD^2 either matches or surpasses the block efficiency of the pretrained drafter.
    [berdozsteering, section 4.1, Tables 1 and 5]

    Instead: In 39 of 40 cells. In this one it is below, significantly by the paper's test (Table 3: p = 0.04).
    """
    return _not_below(**pair)


@claim(
    "steering-highest",
    _pairs("SD^2", "pretrained", ["T = 0"]) + _pairs("SD^2", "distilled", ["T = 0"]),
    mutants={"By at least 0.05.": {"by": 0.045}},
)
def highest(**pair: Any) -> float:
    """At T = 0 SD^2 has the highest block efficiency for all tasks and models. [berdozsteering, Table 5, caption]"""
    return above(**pair)


@claim(
    "steering-greedy-gains-more",
    [
        {"cells": [EFFICIENCY[f"{at}, {model}, {each}"]["mean"] for at in BOTH for each in ("pretrained", method)]}
        for model in MODELS
        for method in ("distilled", "SD^2")
    ],
    counterexample={"cells": ["1.88", "2.45", "2.36", "2.86"]},
)
def greedy_gains_more(cells: list[str]) -> float:
    """Distilled and SD^2 drafters gain more tokens per block at T = 0 than at T = 1. [berdozsteering, Table 5, caption]

    Instead: True of Qwen and Llama. Vicuna's gain less, 0.50 against 0.57 and 0.91 against 1.08.
    """
    return float(numbers(cells) @ (1, -1, -1, 1) + 4 * half_unit(cells[0]))


@claim(
    "steering-no-gain-where-aligned",
    _pairs("pretrained", "distilled", **ALIGNED) + _pairs("pretrained", "SD^2", **ALIGNED),
    counterexample={"where": "T = 1, Qwen3 14B, HumanEval", "more": "4.89", "less": "5.25"},
)
def no_gain_where_aligned(**pair: Any) -> float:
    """For Qwen and Llama neither distilled nor SD^2 drafters improve over pretrained ones on GSM8K and HumanEval.
    [berdozsteering, Table 1, caption]

    Instead: True of distilled drafters. SD^2 has a higher block efficiency in four of six cells, in this one by 7%
    (Table 3: p = 0.03), with 8% more throughput.
    """
    return _not_below(**pair)


@claim(
    "steering-distilled-below-pretrained",
    _pairs("pretrained", "distilled", **ALIGNED),
    mutants={"By at least 0.02.": {"by": 0.015}},
)
def distilled_below_pretrained(**pair: Any) -> float:
    """On GSM8K and HumanEval the distilled drafter is consistently outmatched by the pretrained one (Qwen, Llama).
    [berdozsteering, section 4.1, Table 1]

    Remark: At T = 1, of which the sentence speaks; at T = 0 the distilled Qwen3 8B drafter is ahead on both.
    """
    return above(**pair)


@claim(
    "steering-percentages",
    [
        _gain("T = 1", VICUNA, "pretrained", 0, "57"),
        _gain("T = 0", LLAMA, "pretrained", 0, "3.7"),
        _gain("T = 1", LLAMA, "pretrained", 0, "1.8"),
        _gain("T = 1", VICUNA, "distilled", 1, "35"),
        _gain("T = 0", VICUNA, "distilled", 1, "22"),
        _faster("T = 1", "SD^2", "mean", "61"),
        _faster("T = 0", "SD^2", "mean", "43"),
        _faster("T = 1", "SD^2", "UltraChat", "83"),
        _faster("T = 1", "distilled", "UltraChat", "53"),
    ],
    mutants={"Two units in the last place more.": {"units": 2}},
)
def percentages(**row: Any) -> float:
    """Vicuna: +57% block efficiency, +61% and +43% throughput; Llama: +3.7% and +1.8%; on UltraChat up to +83%, and
    +53% distilled; up to 35% and 22% more accepted tokens than distilled. [berdozsteering, abstract, section 4.1,
    Tables 1 and 5]

    Remark: 'Up to' is over model pairs, each averaged over the tasks; over single tasks it is 46% and 31%.
    """
    return _percent(**row)


@claim(
    "steering-differences",
    [
        {"what": "tau, pretrained, Llama over Qwen3 8B", "more": "4.91", "less": "3.97", "printed": "0.94"},
        {"what": "tau, Vicuna, distilled over pretrained", "more": "2.45", "less": "1.88", "printed": "0.57"},
        {"what": "tau, Vicuna, SD^2 over distilled", "more": "2.96", "less": "2.45", "printed": "0.51"},
        {"what": "alpha, Qwen3 8B, HumanEval", "more": "0.99", "less": "1.00", "printed": "-0.01"},
        {"what": "tau, Qwen3 8B, HumanEval", "more": "5.18", "less": "5.18", "printed": "0.00"},
    ],
    mutants={"0.04 more.": {"units": 4}},
)
def differences(what: str, more: str, less: str, printed: str, units: int = 0) -> float:
    """Llama's pretrained drafter is ahead by 0.94; Vicuna gains 0.57, then 0.51; Qwen3 8B on HumanEval loses 1%.
    [berdozsteering, section 4.1 and Table 1]
    """
    found, slack = number(more) - number(less), 2 * half_unit(more)
    return agreement(shifted(printed, units), found - slack, found + slack)


INDEPENDENT = [_gain("T = 1", VICUNA, "pretrained", 1, "35"), _faster("T = 1", "SD^2", "mean", "22")]


@claim("steering-over-independent", INDEPENDENT, counterexample=INDEPENDENT[1])
def over_independent(**row: Any) -> float:
    """Over independent drafters, up to 35% more accepted tokens and up to 22% more throughput. [berdozsteering, section
    1, contributions]

    Instead: An understatement: +123% accepted tokens and +61% throughput (Vicuna, T = 1). 35% and 22% are the accepted
    tokens over distilled drafters, at T = 1 and T = 0, as the abstract has it.
    """
    return _percent(**row)


@claim("steering-average-over-pretrained", [_increase_over("pretrained", "31")], mutants={"40%.": {"units": 9}})
def average_over_pretrained(**row: Any) -> float:
    """Steering accepts 31% more tokens per block than pretrained drafters, on average. [berdozsteering, section 4.1]

    Remark: The mean of the ratios over models and temperatures.
    """
    return _average_increase(**row)


@claim(
    "steering-average-over-distilled",
    [_increase_over("distilled", "21")],
    counterexample=_increase_over("distilled", "21"),
)
def average_over_distilled(**row: Any) -> float:
    """Steering accepts 21% more tokens per block than distilled drafters, on average. [berdozsteering, section 4.1]

    Instead: 12% by the mean that gives the 31% over pretrained drafters; other means give 8% to 14%.
    """
    return _average_increase(**row)


@claim(
    "steering-average-speedup",
    _speedups({"T = 0": "19.5", "T = 1": "16.3"}),
    counterexample=_speedups({"T = 0": "19.5"})[0],
)
def average_speedup(**row: Any) -> float:
    """On average SD^2 is faster than its pretrained counterpart by 19.5% at T = 0 and 16.3% at T = 1. [berdozsteering,
    section 4.1, speedup]

    Instead: The other way round: 19.5% at T = 1 and 16.5% at T = 0, from which 16.3% differs by rounding.
    """
    return _mean_speedup(**row)


@claim(
    "steering-average-speedup-mended",
    _speedups({"T = 1": "19.5", "T = 0": "16.3"}),
    mutants={"1% more.": {"units": 10}},
)
def average_speedup_mended(**row: Any) -> float:
    """On average SD^2 is faster than its pretrained counterpart by 19.5% at T = 1 and 16.3% at T = 0. [berdozsteering,
    section 4.1, speedup, mended]

    Beside: steering-average-speedup
    """
    return _mean_speedup(**row)


@claim(
    "steering-additive",
    [
        {
            "temperature": temperature,
            "steered": _mean_speedups(temperature, "SD^2"),
            "distilled": _mean_speedups(temperature, "distilled"),
            "printed": printed,
        }
        for temperature, printed in (("T = 1", "100"), ("T = 0", "75"))
    ],
    mutants={"By a fifth more.": {"units": 20}},
)
def additive(temperature: str, steered: list[str], distilled: list[str], printed: str, units: int = 0) -> float:
    """SD^2 has roughly twice the additive speedup of distilled drafting at T = 1, and 75% more at T = 0.
    [berdozsteering, section 4.1, speedup]
    """
    over, under = (numbers(cells).mean() - 1 for cells in (steered, distilled))
    return agreement(shifted(printed, units), *_ratio(over, under, half_unit(steered[0])))


@claim(
    "steering-welch",
    [
        {
            "where": f"{row}, {task}",
            "mean": EFFICIENCY[f"T = 1, {row}"][task],
            "deviation": DEVIATION[row][task],
            "base": EFFICIENCY[f"T = 1, {model}, pretrained"][task],
            "base_deviation": DEVIATION[f"{model}, pretrained"][task],
            "t": WELCH_T[row][task],
            "p": WELCH_P[row][task],
        }
        for model in MODELS
        for row in (f"{model}, distilled", f"{model}, SD^2")
        for task in TASKS
    ],
    mutants={"A t that is larger by half.": {"larger": 0.5}},
)
def welch(
    where: str, mean: str, deviation: str, base: str, base_deviation: str, t: str, p: str, larger: float = 0.0
) -> float:
    """Welch's t and its p, of block efficiency against the pretrained drafter over three runs. [berdozsteering, Table
    3]

    Remark: All 40 are what the means and deviations of Table 1 allow, given their rounding.
    Margin: Over all numbers that round to the cells: t of three runs each, and p at 2 to 4 degrees of freedom.
    """
    t = shifted(t, round(100 * larger * number(t)))
    spread = numbers([deviation, base_deviation])
    slack = half_unit(mean)
    ends = [
        (number(mean) - number(base) + shift) / (np.hypot(*np.maximum(spread + more, 0.0)) / np.sqrt(3))
        for shift in (-2 * slack, 2 * slack)
        for more in (-half_unit(deviation), half_unit(deviation))
    ]
    size, unit = abs(number(t)), half_unit(t)
    chances = [2 * float(stdtr(degrees, -(size + shift))) for shift, degrees in ((unit, 4), (-unit, 2))]
    return min(agreement(t, min(ends), max(ends)), agreement(p, *chances))


@claim(
    "steering-significant",
    [
        {"where": f"{row}, {task}", "t": cells[task], "p": WELCH_P[row][task]}
        for row, cells in WELCH_T.items()
        for task in (TASKS if row.startswith("Vicuna") and row.endswith("SD^2") else ["UltraChat"])
    ],
    mutants={"At the level 0.001.": {"level": 0.001}},
)
def significant(where: str, t: str, p: str, level: float = 0.05) -> float:
    """Distilled and SD^2 drafters gain significantly on UltraChat, and Vicuna's SD^2 on every task. [berdozsteering,
    Table 3, caption]
    """
    return min(number(t), level - number(p))
