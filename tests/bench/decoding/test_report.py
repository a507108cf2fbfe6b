"""What a run of the decoding benchmark is summed up to."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import ttest_ind

pytest.importorskip("torch")

from otspec.bench.decoding import tables
from otspec.bench.decoding.cells import DecodingCell
from otspec.bench.decoding.summary import DecodingSummary, by_task, summarise
from otspec.bench.intervals import difference, mean, quotient, ratio
from tests.bench.decoding.fakes import ASSISTED, GENERATE, INTERVAL, NESTED, VANILLA, record

BLOCK = DecodingCell("block", paths=1, depth=8)
CHOSEN = replace(ASSISTED, depth=5, schedule="heuristic", confidence=0.0)
LP = DecodingCell("multi-draft", "lp", 2, 8)


def by_cell(summaries: list[DecodingSummary]) -> dict[DecodingCell, DecodingSummary]:
    return {one.cell: one for one in summaries}


def test_figures_are_ratios_of_sums_on_common_texts() -> None:
    rng = np.random.default_rng(0)
    tokens, steps, others, other_steps = rng.integers(5, 30, (4, 2, 8))
    seconds, their_seconds, plain = rng.uniform(0.1, 2.0, (3, 2, 8))
    records = []
    for at in np.ndindex(2, 8):
        repeat, prompt = at
        records.append(record(NESTED, prompt, int(tokens[at]), int(steps[at]), seconds[at], repeat=repeat))
        if at != (1, 3):  # a text that the reference has not decoded
            more = int(others[at]), int(other_steps[at]), their_seconds[at]
            records.append(record(INTERVAL, prompt, *more, repeat=repeat))
        records.append(record(GENERATE, prompt, 10, 10, plain[at], repeat=repeat))
    records += [record(LP, 0, 0, 0, message="too large"), record(CHOSEN, 0, 1000, 1, trial=True)]
    found = by_cell(summarise(records))
    assert found.keys() == {NESTED, INTERVAL, GENERATE, LP}
    nested, interval, generate = found[NESTED], found[INTERVAL], found[GENERATE]

    assert (nested.prompts, nested.texts, interval.texts) == (8, 16, 15)
    assert nested.efficiency == ratio(tokens.sum(0).astype(float), steps.sum(0).astype(float))
    assert nested.efficiency.value == pytest.approx(tokens.sum() / steps.sum())
    common = np.ones((2, 8))
    common[1, 3] = 0
    pairs = [(one * common).sum(0) for one in (tokens, steps, others, other_steps)]
    assert nested.gain == difference(*pairs)
    assert nested.gain.value == pytest.approx(pairs[0].sum() / pairs[1].sum() - pairs[2].sum() / pairs[3].sum())
    assert math.isnan(interval.gain.value)
    assert math.isnan(generate.gain.value)

    speed_up = nested.speed_ups[GENERATE]
    sums = (tokens.sum(0), seconds.sum(0), [20] * 8, plain.sum(0))
    expected = quotient(*(np.asarray(one, dtype=float) for one in sums))
    assert (speed_up.value, speed_up.low, speed_up.high) == pytest.approx((expected.value, expected.low, expected.high))
    assert speed_up.value == pytest.approx((plain.sum() / 160) / (seconds.sum() / tokens.sum()))
    assert generate.speed_ups == {}
    assert nested.ms_by_phase["target"] == pytest.approx(1e3 * seconds.sum() / tokens.sum())
    assert (found[LP].prompts, found[LP].message) == (0, "too large")
    table: Any = tables.failed_table(list(found.values()))
    assert table.rows == [("2", "8", "1", "lp", "too large")]
    assert tables.failed_table([nested]) is None


def test_cells_are_compared_at_their_own_temperature_depth_and_truncation_with_a_baselines_fastest() -> None:
    cut: Any = {"draft_top_k": 10}
    cold: Any = {"temperature": 0.0}
    figures = {NESTED: 8, INTERVAL: 6, replace(NESTED, **cut): 9, replace(INTERVAL, **cut): 5}
    figures |= {replace(NESTED, depth=4): 7, replace(NESTED, **cold): 10, replace(INTERVAL, **cold): 4}
    figures |= {GENERATE: 4, replace(GENERATE, **cold): 2, BLOCK: 5, (fast := replace(BLOCK, depth=4)): 6}
    found = by_cell(summarise([record(cell, 0, tokens, 2) for cell, tokens in figures.items()]))
    ours = [NESTED, replace(NESTED, **cut), replace(NESTED, **cold)]
    assert [found[cell].gain.value for cell in ours] == [1.0, 2.0, 3.0]
    assert math.isnan(found[replace(NESTED, depth=4)].gain.value)
    assert {cell: one.value for cell, one in found[NESTED].speed_ups.items()} == {GENERATE: 2, fast: 8 / 6}
    assert found[BLOCK].speed_ups.keys() == {GENERATE}
    ((baseline, speed_up),) = found[replace(NESTED, **cold)].speed_ups.items()
    assert (baseline, speed_up.value) == (replace(GENERATE, **cold), 5)


def test_tables() -> None:
    single, prompt_lookup = DecodingCell("single", paths=1, depth=8), DecodingCell("prompt-lookup", depth=8)
    three = DecodingCell("multi-draft", "single", 3, 8)
    cells = [VANILLA, GENERATE, single, prompt_lookup, CHOSEN, NESTED, INTERVAL, three]
    records = [record(cell, at, 8 + at, 4, 0.5 + 0.1 * at) for at in range(6) for cell in cells]
    records.append(record(DecodingCell("typical", paths=2, depth=8), 0, 9, 3, lossless=False))
    records += [record(replace(cell, temperature=0.0), at, 9, 3) for at in range(2) for cell in cells]
    records += [
        record(cell, 0, 90 if cell.depth == 20 else 9, 3, cell.depth, trial=True) for cell in ASSISTED.candidates
    ]
    everything = summarise(records)
    assert [one.cell.temperature for one in everything] == [1.0] * 9 + [0.0] * 8
    summaries = [one for one in everything if one.cell.temperature]
    table = tables.efficiency_table(summaries, "t")
    rows = {row[0]: row[1:] for row in table.rows}
    assert table.header == ("rule", "K = 2", "K = 3")
    assert rows["nested"][0].startswith("2.625 [2.")
    assert rows["single (one path)"] == rows["assisted (one path, heuristic)"] == (rows["nested"][0],) * 2
    assert rows["single"] == ("-", rows["nested"][0])
    assert rows["typical (lossy)"] == ("3.000", "-")
    assert rows["paper: global resolution"] == ("2.23", "2.54")
    assert [row[2] for row in tables.decoding_table(summaries, "t", "interval").rows if row[0] == "3"] == ["single"]
    table = tables.speed_up_table(summaries, "t")
    assert table.header[2:] == ("over generate", "over vanilla", "over assisted", "over prompt-lookup")
    times = [float(row[1]) for row in table.rows]
    assert times == sorted(times)
    choice: Any = tables.choice_table(records)
    shown = ("20 tokens, constant, confidence 0.4", "222.22")
    assert [row[2:4] for row in choice.rows if row[-1] == "chosen"] == [shown]
    assert len(choice.rows) == len(ASSISTED.candidates)
    assert tables.choice_table([one for one in records if not one["trial"]]) is None


def test_figures_of_a_task_are_those_of_its_prompts() -> None:
    rng = np.random.default_rng(0)
    tokens, seconds, plain = rng.integers(5, 30, 12), rng.uniform(0.1, 2, 12), rng.uniform(0.1, 2, 12)
    records = []
    for prompt, task in enumerate(["math"] * 7 + ["qa"] * 5):
        records.append(record(NESTED, prompt, int(tokens[prompt]), 4, seconds[prompt]) | {"task": task})
        records.append(record(VANILLA, prompt, 10, 10, plain[prompt]) | {"task": task})
    found = by_task(records)
    assert list(found) == ["math", "qa"]
    for task, mine in (("math", slice(0, 7)), ("qa", slice(7, 12))):
        vanilla, nested = found[task]
        some, calls = tokens[mine].astype(float), np.full(tokens[mine].size, 4.0)
        assert nested.efficiency == ratio(some, calls)
        expected = quotient(some, seconds[mine], np.full(calls.size, 10.0), plain[mine])
        assert nested.speed_ups[vanilla.cell] == expected
    efficiency, lengths, speed_up, times = tables.task_tables(found, summarise(records), "t")
    assert efficiency.header == lengths.header == speed_up.header == ("rule", "math", "qa", "mean", "all")
    by_rule = {row[0]: row[1:] for row in efficiency.rows}
    assert by_rule["nested, K = 2, L = 8"][0] == found["math"][1].efficiency.shown(".2f")
    assert by_rule["vanilla"] == ("1.00 [1.00, 1.00]",) * 4
    both = mean([found[task][1].efficiency for task in ("math", "qa")])
    assert by_rule["nested, K = 2, L = 8"][2] == both.shown(".2f")
    assert both.value == pytest.approx((tokens[:7].mean() / 4 + tokens[7:].mean() / 4) / 2)
    assert [row[0] for row in times.rows] == ["math", "math", "qa", "qa", "all", "all"]
    assert times.rows[1][4] == f"{float(1e3 * seconds[:7].sum() / tokens[:7].sum()):.2f}"
    without = [record(VANILLA, 0, 10, 10)]
    assert by_task(without) == {}
    assert tables.task_tables({}, summarise(without), "t") == []


def test_drafters_are_compared_by_means_over_repeats_welchs_test_and_speed_ups_of_the_same_texts() -> None:
    other = replace(NESTED, drafter="fr:9")
    steps = np.random.default_rng(0).integers(5, 9, (3, 6))
    records = [  # the other drafter takes two steps more, and half of the time
        record(cell, prompt, 30, int(steps[repeat, prompt]) + more, seconds, repeat=repeat)
        for repeat, prompt in np.ndindex(3, 6)
        for cell, more, seconds in ((GENERATE, 23, 4.0), (INTERVAL, 1, 3.0), (NESTED, 0, 2.0), (other, 2, 1.0))
    ]
    summaries = summarise(records)
    assert [one.cell for one in tables.compared(summaries)] == [NESTED, other]
    table: Any = tables.drafters_table(summaries, records, "Drafters")
    plain, fewer = table.rows
    taus, others = 180 / steps.sum(axis=1), 180 / (steps + 2).sum(axis=1)
    assert tables.efficiencies([one for one in records if one["drafter"]]) == pytest.approx(others)
    assert plain[:4] == ("as it is", "nested, K = 2, L = 8", f"{taus.mean():.3f}", f"{taus.std(ddof=1):.3f}")
    assert plain[4:7] == ("-", "-", "-")
    shown = ttest_ind(others, taus, equal_var=False)
    assert (fewer[0], *fewer[4:6]) == ("fr:9", f"{shown.statistic:.2f}", f"{shown.pvalue:.3f}")
    assert fewer[6].startswith("2.00 [2.00, 2.00]")
    assert fewer[7].startswith("4.00")
    alone = [one for one in records if one["drafter"] == ""]  # nothing is compared
    assert tables.drafters_table(summarise(alone), alone, "Drafters") is None
    only = [one for one in records if one["drafter"] == "fr:9"]
    table = tables.drafters_table(summarise(only), only, "Drafters")
    assert [row[4:7] for row in table.rows] == [("-", "-", "-")]
