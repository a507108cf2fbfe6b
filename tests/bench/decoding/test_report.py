"""What a run of the decoding benchmark is summed up to."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

from otspec.bench.decoding.cells import DecodingCell
from otspec.bench.decoding.labels import label
from otspec.bench.decoding.summary import DecodingSummary, summarise
from otspec.bench.decoding.tables import choice_table, decoding_table, efficiency_table, failed_table, speed_up_table
from otspec.bench.intervals import difference, quotient, ratio
from tests.bench.decoding.fakes import ASSISTED, GENERATE, INTERVAL, NESTED, VANILLA, record

BLOCK = DecodingCell("block", paths=1, depth=8)
CHOSEN = replace(ASSISTED, depth=5, schedule="heuristic", confidence=0.0)


def by_cell(summaries: list[DecodingSummary]) -> dict[DecodingCell, DecodingSummary]:
    return {one.cell: one for one in summaries}


def test_figures_are_ratios_of_sums_on_common_texts() -> None:
    rng = np.random.default_rng(0)
    tokens, steps, others, other_steps = rng.integers(5, 30, (4, 2, 8))
    seconds, their_seconds, plain = rng.uniform(0.1, 2.0, (3, 2, 8))
    records = []
    for repeat in range(2):
        for prompt in range(8):
            at = repeat, prompt
            records.append(record(NESTED, prompt, int(tokens[at]), int(steps[at]), seconds[at], repeat=repeat))
            if at != (1, 3):  # a text that the reference has not decoded
                more = int(others[at]), int(other_steps[at]), their_seconds[at]
                records.append(record(INTERVAL, prompt, *more, repeat=repeat))
            records.append(record(GENERATE, prompt, 10, 10, plain[at], repeat=repeat))
    records.append(record(DecodingCell("multi-draft", "lp", 2, 8), 0, 0, 0, message="too large"))
    records.append(record(CHOSEN, 0, 1000, 1, trial=True))
    found = by_cell(summarise(records))
    assert found.keys() == {NESTED, INTERVAL, GENERATE, DecodingCell("multi-draft", "lp", 2, 8)}
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
    expected = quotient(
        *(np.asarray(one, dtype=float) for one in (tokens.sum(0), seconds.sum(0), [20] * 8, plain.sum(0)))
    )
    assert (speed_up.value, speed_up.low, speed_up.high) == pytest.approx((expected.value, expected.low, expected.high))
    assert speed_up.value == pytest.approx((plain.sum() / 160) / (seconds.sum() / tokens.sum()))
    assert generate.speed_ups == {}
    assert nested.ms_by_phase["target"] == pytest.approx(1e3 * seconds.sum() / tokens.sum())
    failed = found[DecodingCell("multi-draft", "lp", 2, 8)]
    assert (failed.prompts, failed.message) == (0, "too large")
    table = failed_table(list(found.values()))
    assert table is not None
    assert table.rows == [("2", "8", "1", "lp", "too large")]
    assert failed_table([nested]) is None


def test_another_reference() -> None:
    records = [record(cell, at, 8 + at, 4) for at in range(3) for cell in (NESTED, INTERVAL)]
    found = by_cell(summarise(records, "nested"))
    assert math.isnan(found[NESTED].gain.value)
    assert found[INTERVAL].gain.value == 0
    assert decoding_table(list(found.values()), "t", "nested").header[4] == "over nested"


def test_cells_are_compared_at_their_own_temperature_depth_and_truncation() -> None:
    cut: Any = {"draft_top_k": 10}
    cold: Any = {"temperature": 0.0}
    figures = {
        NESTED: 8,
        INTERVAL: 6,
        replace(NESTED, **cut): 9,
        replace(INTERVAL, **cut): 5,
        replace(NESTED, depth=4): 7,
        replace(NESTED, **cold): 10,
        replace(INTERVAL, **cold): 4,
        GENERATE: 4,
        replace(GENERATE, **cold): 2,
    }
    found = by_cell(summarise([record(cell, 0, tokens, 2) for cell, tokens in figures.items()]))
    ours = [NESTED, replace(NESTED, **cut), replace(NESTED, **cold)]
    assert [found[cell].gain.value for cell in ours] == [1.0, 2.0, 3.0]
    assert math.isnan(found[replace(NESTED, depth=4)].gain.value)
    assert found[NESTED].speed_ups[GENERATE].value == 2
    cold_generate = replace(GENERATE, **cold)
    assert found[replace(NESTED, **cold)].speed_ups.keys() == {cold_generate}
    assert found[replace(NESTED, **cold)].speed_ups[cold_generate].value == 5


def test_of_several_cells_of_a_baseline_the_fastest_stands() -> None:
    slow, fast = BLOCK, replace(BLOCK, depth=4)
    seconds = {slow: 3.0, fast: 2.0, NESTED: 1.0}
    found = by_cell(summarise([record(cell, 0, 10, 5, spent) for cell, spent in seconds.items()]))
    assert found[NESTED].speed_ups.keys() == {fast}
    assert found[NESTED].speed_ups[fast].value == 2
    assert found[slow].speed_ups == {}


def test_one_prompt_has_no_interval() -> None:
    summaries = summarise([record(NESTED, 0, 9, 4), record(INTERVAL, 0, 8, 4)])
    tables = (
        efficiency_table(summaries, "t"),
        decoding_table(summaries, "t", "interval"),
        speed_up_table(summaries, "t"),
    )
    for table in tables:
        assert "nan" not in " ".join(cell for row in table.rows for cell in row)
    assert tables[1].rows[1][2:5] == ("nested", "2.250", "+0.250")
    assert tables[2].header == ("rule", "ms/token")  # nothing was decoded to compare the time with


def test_tables() -> None:
    single, prompt_lookup = DecodingCell("single", paths=1, depth=8), DecodingCell("prompt-lookup", depth=8)
    three = DecodingCell("multi-draft", "single", 3, 8)
    cells = [VANILLA, GENERATE, single, prompt_lookup, CHOSEN, NESTED, INTERVAL, three]
    records = [record(cell, at, 8 + at, 4, 0.5 + 0.1 * at) for at in range(6) for cell in cells]
    records.append({**record(DecodingCell("typical", paths=2, depth=8), 0, 9, 3), "lossless": False})
    records += [record(replace(cell, temperature=0.0), at, 9, 3) for at in range(2) for cell in cells]
    records += [record(cell, 0, 9, 3, cell.depth, trial=True) for cell in ASSISTED.candidates]
    everything = summarise(records)
    assert [one.cell.temperature for one in everything] == [1.0] * 9 + [0.0] * 8
    summaries = [one for one in everything if one.cell.temperature]
    table = efficiency_table(summaries, "t")
    rows = {row[0]: row[1:] for row in table.rows}
    assert table.header == ("rule", "K = 2", "K = 3")
    assert rows["nested"][0].startswith("2.625 [2.")
    assert rows["nested"][1] == "-"
    assert rows["single (one path)"] == (rows["nested"][0],) * 2
    assert rows["assisted (one path, heuristic)"] == (rows["nested"][0],) * 2
    assert rows["single"] == ("-", rows["nested"][0])
    assert rows["typical (lossy)"] == ("3.000", "-")
    assert rows["paper: global resolution"] == ("2.23", "2.54")
    cold = efficiency_table([one for one in everything if not one.cell.temperature], "t")
    assert "paper: global resolution" not in {row[0] for row in cold.rows}

    table = decoding_table(summaries, "t", "interval")
    assert {len(row) for row in table.rows} == {len(table.header)}
    assert [row[2] for row in table.rows if row[0] == "3"] == ["single"]
    table = speed_up_table(summaries, "t")
    assert table.header[2:] == ("over generate", "over vanilla", "over assisted", "over prompt-lookup")
    assert {len(row) for row in table.rows} == {len(table.header)}
    assert "assisted: 5 tokens, heuristic; prompt-lookup: 8 tokens" in table.note
    labels = {row[0] for row in table.rows}
    assert len(labels) == len(table.rows)  # so that no rules part them on screen
    assert {"generate", "nested, K = 2, L = 8", "assisted, K = 1, L = 5 (heuristic)"} <= labels
    times = [float(row[1]) for row in table.rows]
    assert times == sorted(times)

    choice = choice_table(records)
    assert choice is not None
    assert [row[2] for row in choice.rows if row[-1] == "chosen"] == ["3 tokens, constant"]
    assert len(choice.rows) == len(ASSISTED.candidates)
    assert choice_table([one for one in records if not one["trial"]]) is None


def test_columns_tell_depths_apart_where_there_are_several() -> None:
    cells = [replace(NESTED, depth=depth, paths=k) for k in (2, 3) for depth in (4, 8)]
    cells += [replace(BLOCK, depth=depth) for depth in (4, 8)]
    summaries = summarise([record(cell, 0, 2 * cell.depth + cell.paths, 2) for cell in cells])
    table = efficiency_table(summaries, "t")
    assert table.header == ("rule", "K = 2, L = 4", "K = 2, L = 8", "K = 3, L = 4", "K = 3, L = 8")
    rows = {row[0]: row[1:] for row in table.rows}
    assert rows["nested"] == ("5.000", "9.000", "5.500", "9.500")
    assert rows["block (one path)"] == ("4.500", "8.500", "4.500", "8.500")
    assert rows["paper: global resolution"] == ("-", "2.23", "-", "2.54")
    alone = efficiency_table(summarise([record(replace(NESTED, paths=1), 0, 9, 2)]), "t")
    assert alone.header == ("rule", "K = 1")
    assert alone.rows[0] == ("nested (one path)", "4.500")


def test_what_a_cell_is_called() -> None:
    cells = {
        replace(NESTED, draft_top_k=10): "nested (drafts top-k 10)",
        replace(NESTED, draft_top_p=0.9, draft_temperature=1.5): "nested (drafts top-p 0.9, drafts at temperature 1.5)",
        replace(
            ASSISTED, depth=8, schedule="constant", confidence=0.4
        ): "assisted (one path, constant, confidence 0.4)",
    }
    for cell, name in cells.items():
        assert label(summarise([record(cell, 0, 5, 2)])[0]) == name
