"""What the text says of Tables 1, 3 and 5, computed from their cells."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from scipy.stats import t as student

from otspec.laws import FloatArray
from otspec.proofs_check.claim import Mutation, Verdict
from otspec.proofs_check.printed import above, agreement, average, half_unit, listed, number, numbers, shifted
from otspec.proofs_check.search import Instance
from otspec.proofs_check.steering.cells import COLUMNS, DEVIATION, EFFICIENCY, METHODS, SPEEDUP, TASKS, WELCH

KEY = "berdozsteering"
MODELS = tuple(DEVIATION)
VICUNA, LLAMA = MODELS[0], MODELS[-1]
ALIGNED = ("HumanEval", "GSM8K")


def _efficiency(temperature: str, model: str, method: str, task: str = "mean") -> str:
    return EFFICIENCY[temperature, model][METHODS.index(method)].split()[COLUMNS.index(task)]


def _speedup(temperature: str, model: str, method: str, task: str = "mean") -> str:
    return SPEEDUP[temperature, model][METHODS.index(method) - 1].split()[COLUMNS.index(task)]


def _pairs(
    more: str,
    less: str,
    temperatures: Sequence[str] = ("T = 1",),
    tasks: Sequence[str] = TASKS,
    models: Sequence[str] = MODELS,
    cell: Callable[..., str] = _efficiency,
) -> list[Instance]:
    """Two methods, cell by cell."""
    return [
        {
            "where": f"{temperature}, {model}, {task}",
            "more": cell(temperature, model, more, task),
            "less": cell(temperature, model, less, task),
        }
        for temperature in temperatures
        for model in models
        for task in tasks
    ]


def _not_below(where: str, more: str, less: str) -> float:
    return number(more) - number(less)


def _ratio(over: FloatArray, under: FloatArray, slack: float) -> FloatArray:
    """Smallest and largest ratio of numbers that are known up to a slack, in percent above 1, shape (2, ...)."""
    return 100 * (np.array([(over - slack) / (under + slack), (over + slack) / (under - slack)]) - 1)


def _percent(what: str, more: str, less: str, offset: int, printed: str) -> float:
    over, under = numbers([more, less]) - offset
    return agreement(printed, *_ratio(over, under, half_unit(more)))


def _difference(what: str, more: str, less: str, printed: str) -> float:
    found, slack = number(more) - number(less), 2 * half_unit(more)
    return agreement(printed, found - slack, found + slack)


def _average_increase(more: list[str], less: list[str], printed: str) -> float:
    """The best agreement of six averages: at T = 1, T = 0 and both; of ratios, and as a ratio of means."""
    over, under, slack = numbers(more) - 1, numbers(less) - 1, half_unit(more[0])
    half = len(more) // 2
    found: list[FloatArray] = []
    for rows in (slice(None, half), slice(half, None), slice(None)):
        found.append(_ratio(over[rows], under[rows], slack).mean(axis=1))
        found.append(_ratio(over[rows].mean(), under[rows].mean(), slack))
    return max(agreement(printed, *ends) for ends in found)


def _mean_speedup(temperature: str, cells: list[str], printed: str) -> float:
    found, slack = 100 * (float(numbers(cells).mean()) - 1), 100 * half_unit(cells[0])
    return agreement(printed, found - slack, found + slack)


def _additive(temperature: str, steered: list[str], distilled: list[str], printed: str) -> float:
    over, under = (numbers(cells).mean() - 1 for cells in (steered, distilled))
    return agreement(printed, *_ratio(over, under, half_unit(steered[0])))


def _welch(where: str, mean: str, deviation: str, base: str, base_deviation: str, t: str, p: str) -> float:
    """Over all numbers that round to the cells: t of three runs each, and p at 2 to 4 degrees of freedom."""
    spread = numbers([deviation, base_deviation])
    slack = half_unit(mean)
    ends = [
        (number(mean) - number(base) + shift) / (np.hypot(*np.maximum(spread + more, 0.0)) / np.sqrt(3))
        for shift in (-2 * slack, 2 * slack)
        for more in (-half_unit(deviation), half_unit(deviation))
    ]
    size, unit = abs(number(t)), half_unit(t)
    chances = [2 * float(student.sf(size + shift, degrees)) for shift, degrees in ((unit, 4), (-unit, 2))]
    return min(agreement(t, min(ends), max(ends)), agreement(p, *chances))


MEANS: list[Instance] = [
    {"row": f"{', '.join(where)}, {method}", "cells": row.split()[:-1], "mean": row.split()[-1]}
    for where, rows in EFFICIENCY.items()
    for method, row in zip(METHODS, rows, strict=True)
]


def _gain(temperature: str, model: str, less: str, offset: int, printed: str) -> Instance:
    what = f"tau{' - 1' if offset else ''}, {temperature}, {model}, SD^2 over {less}"
    more, under = (_efficiency(temperature, model, method) for method in ("SD^2", less))
    return {"what": what, "more": more, "less": under, "offset": offset, "printed": printed}


def _faster(temperature: str, model: str, method: str, task: str, printed: str) -> Instance:
    what = f"alpha, {temperature}, {model}, {method}, {task}"
    return {
        "what": what,
        "more": _speedup(temperature, model, method, task),
        "less": "1.00",
        "offset": 0,
        "printed": printed,
    }


PERCENTAGES: list[Instance] = [
    _gain("T = 1", VICUNA, "pretrained", 0, "57"),
    _gain("T = 0", LLAMA, "pretrained", 0, "3.7"),
    _gain("T = 1", LLAMA, "pretrained", 0, "1.8"),
    _gain("T = 1", VICUNA, "distilled", 1, "35"),
    _gain("T = 0", VICUNA, "distilled", 1, "22"),
    _faster("T = 1", VICUNA, "SD^2", "mean", "61"),
    _faster("T = 0", VICUNA, "SD^2", "mean", "43"),
    _faster("T = 1", VICUNA, "SD^2", "UltraChat", "83"),
    _faster("T = 1", VICUNA, "distilled", "UltraChat", "53"),
]

INDEPENDENT: list[Instance] = [
    _gain("T = 1", VICUNA, "pretrained", 1, "35"),
    _faster("T = 1", VICUNA, "SD^2", "mean", "22"),
]

DIFFERENCES: list[Instance] = [
    {"what": "tau, pretrained, Llama over Qwen3 8B", "more": "4.91", "less": "3.97", "printed": "0.94"},
    {"what": "tau, Vicuna, distilled over pretrained", "more": "2.45", "less": "1.88", "printed": "0.57"},
    {"what": "tau, Vicuna, SD^2 over distilled", "more": "2.96", "less": "2.45", "printed": "0.51"},
    {"what": "alpha, Qwen3 8B, HumanEval", "more": "0.99", "less": "1.00", "printed": "-0.01"},
    {"what": "tau, Qwen3 8B, HumanEval", "more": "5.18", "less": "5.18", "printed": "0.00"},
]


def _increase_over(method: str, printed: str) -> Instance:
    return {
        "more": [_efficiency(*where, "SD^2") for where in EFFICIENCY],
        "less": [_efficiency(*where, method) for where in EFFICIENCY],
        "printed": printed,
    }


def _mean_speedups(temperature: str, method: str) -> list[str]:
    return [_speedup(temperature, model, method) for model in MODELS]


def _speedups(printed: dict[str, str]) -> list[Instance]:
    return [
        {"temperature": temperature, "cells": _mean_speedups(temperature, "SD^2"), "printed": percent}
        for temperature, percent in printed.items()
    ]


ADDITIVE: list[Instance] = [
    {
        "temperature": temperature,
        "steered": _mean_speedups(temperature, "SD^2"),
        "distilled": _mean_speedups(temperature, "distilled"),
        "printed": printed,
    }
    for temperature, printed in (("T = 1", "100"), ("T = 0", "75"))
]

TESTS: list[Instance] = [
    {
        "where": f"{model}, {method}, {task}",
        "mean": _efficiency("T = 1", model, method, task),
        "deviation": DEVIATION[model][METHODS.index(method)].split()[column],
        "base": _efficiency("T = 1", model, "pretrained", task),
        "base_deviation": DEVIATION[model][0].split()[column],
        "t": t.split()[column],
        "p": p.split()[column],
    }
    for (model, method), (t, p) in WELCH.items()
    for column, task in enumerate(TASKS)
]

CLAIMS = (
    listed(
        "steering-means",
        "The mean block efficiencies of Tables 1 and 5 are the means of their rows.",
        f"{KEY}, Tables 1 and 5",
        MEANS,
        average,
        mutations=(
            Mutation("Two units in the last place more.", lambda mean, **row: average(mean=shifted(mean, 2), **row)),
        ),
    ),
    listed(
        "steering-above-distilled",
        "SD^2 always achieves higher block efficiency than its distilled counterpart.",
        f"{KEY}, Table 1",
        _pairs("SD^2", "distilled"),
        above,
        mutations=(Mutation("By at least 0.1.", lambda **pair: above(**pair) - 0.095),),
    ),
    listed(
        "steering-faster-than-distilled",
        "SD^2 consistently achieves greater throughput than its distilled counterpart.",
        f"{KEY}, Table 1, caption",
        _pairs("SD^2", "distilled", cell=_speedup),
        above,
        expected=Verdict.FAILS,
        counterexample={"where": "T = 1, Qwen3 8B, HumanEval", "more": "0.99", "less": "0.99"},
        remedy="At least the same: greater in 19 of 20 cells, and equal, as printed, in this one.",
    ),
    listed(
        "steering-matches-pretrained",
        "Across all datasets SD^2 either matches or surpasses the block efficiency of the pretrained drafter.",
        f"{KEY}, section 4.1, Tables 1 and 5",
        _pairs("SD^2", "pretrained", ["T = 1", "T = 0"]),
        _not_below,
        expected=Verdict.FAILS,
        counterexample={"where": "T = 1, Llama 3.1 8B, GSM8K", "more": "5.44", "less": "5.62"},
        remedy="In 39 of 40 cells.  In this one it is below, significantly by the paper's test (Table 3: p = 0.04).",
    ),
    listed(
        "steering-highest",
        "At T = 0 SD^2 has the highest block efficiency for all tasks and models.",
        f"{KEY}, Table 5, caption",
        _pairs("SD^2", "pretrained", ["T = 0"]) + _pairs("SD^2", "distilled", ["T = 0"]),
        above,
        mutations=(Mutation("By at least 0.05.", lambda **pair: above(**pair) - 0.045),),
    ),
    listed(
        "steering-no-gain-where-aligned",
        "For Qwen and Llama neither distilled nor SD^2 drafters improve over pretrained ones on GSM8K and HumanEval.",
        f"{KEY}, Table 1, caption",
        _pairs("pretrained", "distilled", tasks=ALIGNED, models=MODELS[1:])
        + _pairs("pretrained", "SD^2", tasks=ALIGNED, models=MODELS[1:]),
        _not_below,
        expected=Verdict.FAILS,
        counterexample={"where": "T = 1, Qwen3 14B, HumanEval", "more": "4.89", "less": "5.25"},
        remedy="True of distilled drafters.  SD^2 has a higher block efficiency in four of six cells, in this one by "
        "7% (Table 3: p = 0.03), with 8% more throughput.",
    ),
    listed(
        "steering-distilled-below-pretrained",
        "On GSM8K and HumanEval the distilled drafter is consistently outmatched by the pretrained one (Qwen, Llama).",
        f"{KEY}, section 4.1, Table 1",
        _pairs("pretrained", "distilled", tasks=ALIGNED, models=MODELS[1:]),
        above,
        remark="At T = 1, of which the sentence speaks; at T = 0 the distilled Qwen3 8B drafter is ahead on both.",
        mutations=(Mutation("By at least 0.02.", lambda **pair: above(**pair) - 0.015),),
    ),
    listed(
        "steering-percentages",
        "Vicuna: +57% block efficiency, +61% and +43% throughput; Llama: +3.7% and +1.8%; on UltraChat up to +83%, and "
        "+53% distilled; up to 35% and 22% more accepted tokens than distilled.",
        f"{KEY}, abstract, section 4.1, Tables 1 and 5",
        PERCENTAGES,
        _percent,
        remark="'Up to' is over model pairs, each averaged over the tasks; over single tasks it is 46% and 31%.",
        mutations=(
            Mutation(
                "Two units in the last place more.", lambda printed, **row: _percent(printed=shifted(printed, 2), **row)
            ),
        ),
    ),
    listed(
        "steering-differences",
        "Llama's pretrained drafter is ahead by 0.94; Vicuna gains 0.57, then 0.51; Qwen3 8B on HumanEval loses 1%.",
        f"{KEY}, section 4.1 and Table 1",
        DIFFERENCES,
        _difference,
        mutations=(Mutation("0.04 more.", lambda printed, **row: _difference(printed=shifted(printed, 4), **row)),),
    ),
    listed(
        "steering-over-independent",
        "Over independent drafters, up to 35% more accepted tokens and up to 22% more throughput.",
        f"{KEY}, section 1, contributions",
        INDEPENDENT,
        _percent,
        expected=Verdict.FAILS,
        counterexample=INDEPENDENT[1],
        remedy="An understatement: +123% accepted tokens and +61% throughput (Vicuna, T = 1).  35% and 22% are the "
        "accepted tokens over distilled drafters, at T = 1 and T = 0, as the abstract has it.",
    ),
    listed(
        "steering-average-over-pretrained",
        "Steering accepts 31% more tokens per block than pretrained drafters, on average.",
        f"{KEY}, section 4.1",
        [_increase_over("pretrained", "31")],
        _average_increase,
        remark="The mean of the ratios over models and temperatures.",
        mutations=(Mutation("40%.", lambda more, less, printed: _average_increase(more, less, shifted(printed, 9))),),
    ),
    listed(
        "steering-average-over-distilled",
        "Steering accepts 21% more tokens per block than distilled drafters, on average.",
        f"{KEY}, section 4.1",
        [_increase_over("distilled", "21")],
        _average_increase,
        expected=Verdict.FAILS,
        counterexample=_increase_over("distilled", "21"),
        remedy="12% by the mean that gives the 31% over pretrained drafters; other means give 8% to 14%.",
    ),
    listed(
        "steering-average-speedup",
        "On average SD^2 is faster than its pretrained counterpart by 19.5% at T = 0 and 16.3% at T = 1.",
        f"{KEY}, section 4.1, speedup",
        _speedups({"T = 0": "19.5", "T = 1": "16.3"}),
        _mean_speedup,
        expected=Verdict.FAILS,
        counterexample=_speedups({"T = 0": "19.5"})[0],
        remedy="The other way round: 19.5% at T = 1 and 16.5% at T = 0, from which 16.3% differs by rounding.",
    ),
    listed(
        "steering-average-speedup-mended",
        "On average SD^2 is faster than its pretrained counterpart by 19.5% at T = 1 and 16.3% at T = 0.",
        f"{KEY}, section 4.1, speedup, mended",
        _speedups({"T = 1": "19.5", "T = 0": "16.3"}),
        _mean_speedup,
        variant_of="steering-average-speedup",
        mutations=(
            Mutation(
                "1% more.", lambda temperature, cells, printed: _mean_speedup(temperature, cells, shifted(printed, 10))
            ),
        ),
    ),
    listed(
        "steering-additive",
        "SD^2 has roughly twice the additive speedup of distilled drafting at T = 1, and 75% more at T = 0.",
        f"{KEY}, section 4.1, speedup",
        ADDITIVE,
        _additive,
        mutations=(
            Mutation("By a fifth more.", lambda printed, **row: _additive(printed=shifted(printed, 20), **row)),
        ),
    ),
    listed(
        "steering-welch",
        "Welch's t and its p, of block efficiency against the pretrained drafter over three runs.",
        f"{KEY}, Table 3",
        TESTS,
        _welch,
        remark="All 40 are what the means and deviations of Table 1 allow, given their rounding.",
        mutations=(
            Mutation(
                "A t that is larger by half.", lambda t, **row: _welch(t=shifted(t, round(50 * number(t))), **row)
            ),
        ),
    ),
)
