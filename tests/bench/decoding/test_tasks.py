"""Figures of each task, of made records."""

import numpy as np
import pytest

pytest.importorskip("torch")

from otspec.bench.decoding.summary import by_task, summarise
from otspec.bench.decoding.tables import task_tables
from otspec.bench.intervals import mean, quotient, ratio
from tests.bench.decoding.fakes import NESTED, VANILLA, record


def test_figures_of_a_task_are_those_of_its_prompts() -> None:
    rng = np.random.default_rng(0)
    tokens, seconds, plain = rng.integers(5, 30, 12), rng.uniform(0.1, 2, 12), rng.uniform(0.1, 2, 12)
    tasks = ["math"] * 7 + ["qa"] * 5
    records = []
    for prompt, task in enumerate(tasks):
        records.append(record(NESTED, prompt, int(tokens[prompt]), 4, seconds[prompt]) | {"task": task})
        records.append(record(VANILLA, prompt, 10, 10, plain[prompt]) | {"task": task})
    found = by_task(records)
    assert list(found) == ["math", "qa"]
    for task, mine in (("math", slice(0, 7)), ("qa", slice(7, 12))):
        vanilla, nested = found[task]
        calls = np.full(tokens[mine].size, 4.0)
        assert nested.efficiency == ratio(tokens[mine].astype(float), calls)
        assert nested.speed_ups[vanilla.cell] == quotient(
            tokens[mine].astype(float), seconds[mine], np.full(calls.size, 10.0), plain[mine]
        )
    efficiency, lengths, speed_up, times = task_tables(found, summarise(records), "t")
    assert efficiency.header == lengths.header == speed_up.header == ("rule", "math", "qa", "mean", "all")
    by_rule = {row[0]: row[1:] for row in efficiency.rows}
    assert by_rule["nested, K = 2, L = 8"][0] == found["math"][1].efficiency.shown(".2f")
    assert by_rule["vanilla"] == ("1.00 [1.00, 1.00]",) * 4
    both = mean([found[task][1].efficiency for task in ("math", "qa")])
    assert by_rule["nested, K = 2, L = 8"][2] == both.shown(".2f")
    assert both.value == pytest.approx((tokens[:7].mean() / 4 + tokens[7:].mean() / 4) / 2)
    assert {row[0]: row[1:] for row in speed_up.rows}["vanilla"] == ("-",) * 4
    assert [row[0] for row in times.rows] == ["math", "math", "qa", "qa", "all", "all"]
    assert times.header == ("task", "rule", "prompt", "draft", "target", "verification", "rest", "prompts")
    spent = float(1e3 * seconds[:7].sum() / tokens[:7].sum())
    assert times.rows[1][4] == f"{spent:.2f}"


def test_prompts_of_no_task_have_no_tables_of_tasks() -> None:
    records = [record(VANILLA, 0, 10, 10)]
    assert by_task(records) == {}
    assert task_tables({}, summarise(records), "t") == []
