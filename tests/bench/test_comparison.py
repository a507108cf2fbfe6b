"""Two runs beside each other, of made records."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from otspec import DataError
from otspec.bench import Cell
from otspec.bench.comparison import compare
from otspec.bench.intervals import quotient
from otspec.bench.records import Record
from otspec.bench.stored import StoredRun, read_run
from tests.bench.records import solved, stored, unsolved

LP, KSEQ = Cell(10, 2, "lp", "d"), Cell(10, 2, "kseq", "d")


def run_of(name: str, records: list[Record], **identity: Any) -> StoredRun:
    """A run of solvers."""
    return stored(name, "solvers", records, **identity)


def test_ratios_are_those_of_the_positions_that_both_solved() -> None:
    rng = np.random.default_rng(0)
    one, two = rng.uniform(1, 2, 30), rng.uniform(2, 3, 30)
    a = [solved(LP, at, wall_s, acceptance=0.5) for at, wall_s in enumerate(one[:25])]
    a += [solved(KSEQ, 0, 1.0), unsolved(LP, 25, "BUDGET", 99.0)]
    b = [solved(LP, at, wall_s, acceptance=0.25 + 0.01 * at) for at, wall_s in enumerate(two) if at >= 5]
    found = compare(run_of("a", a), run_of("b", b))
    (row,) = found.rows
    assert (row.cell, row.pairs) == (LP, 20)
    assert found.unpaired == (["d (10, 2) kseq"], [])
    mine, theirs = one[5:25], two[5:25]
    assert row.time.first == pytest.approx(1e3 * mine.mean())
    assert row.time.ratio.value == pytest.approx(theirs.sum() / mine.sum())
    expected, found_ratio = quotient(theirs, np.ones(20), mine, np.ones(20)), row.time.ratio
    assert (found_ratio.low, found_ratio.high) == pytest.approx((expected.low, expected.high))
    assert row.figure.ratio.value == pytest.approx(np.mean([0.25 + 0.01 * at for at in range(5, 25)]) / 0.5)


def test_few_pairs_have_no_interval_and_no_plan_no_acceptance() -> None:
    a, b = ([solved(LP, at, wall_s, acceptance=None) for at in range(2)] for wall_s in (1.0, 2.0))
    found = compare(run_of("a", a), run_of("b", b))
    (row,) = found.rows
    assert row.time.ratio.value == 2.0
    assert math.isnan(row.time.ratio.low)
    assert math.isnan(row.figure.ratio.value)
    record = json.loads(json.dumps(found.record(), allow_nan=False))
    assert record["cells"][0]["acceptance"] == dict.fromkeys(("first", "second", "ratio", "low", "high"))
    assert record["cells"][0]["time_ms"]["ratio"] == 2.0
    assert (record["first"], record["second"]) == ("a", "b")
    assert "A: a; B: b." in found.table().note
    assert found.table().rows == [("d (10, 2)", "lp", "2", "1,000", "2,000", "2.000", "-", "-", "-")]


def test_what_differs_is_named() -> None:
    a = run_of("a", [solved(LP, 0, 1.0)], versions={"numpy": "1"}, top_p=None)
    b = run_of("b", [solved(LP, 0, 1.0)], versions={"numpy": "2"}, processor="Q", top_p=0.9)
    found = compare(a, b).differences
    assert [(one.name, one.one, one.other, one.of_machine) for one in found] == [
        ("processor", "P", "Q", True),
        ("top_p", None, 0.9, False),
        ("versions.numpy", "1", "2", False),
    ]


def test_nothing_in_common_is_an_error_that_says_what_there_is(tmp_path: Path) -> None:
    a = run_of("a", [solved(LP, 0, 1.0)])
    for b, message in (
        (run_of("b", [solved(KSEQ, 0, 1.0)]), r"the first has d \(10, 2\) lp; the second has d \(10, 2\) kseq"),
        (run_of("b", [solved(LP, 1, 1.0)]), "nothing in common that both finished"),
        (run_of("b", []), "the second has nothing"),
        (run_of("b", [solved(LP, 0, 1.0)], data={"d": {"sha256": "2"}}), "nothing in common: their d are not the same"),
        (stored("b", "decoding", []), "a is a run of solvers, b of decoding; compare runs of one command"),
    ):
        with pytest.raises(DataError, match=message):
            compare(a, b)
    with pytest.raises(DataError, match="there is no run in"):
        read_run(tmp_path)
    (tmp_path / "run.json").write_text('{"seed": 0, "runs": []}')
    with pytest.raises(DataError, match="a run of another version"):
        read_run(tmp_path)


def test_data_that_only_share_a_name_are_left_out() -> None:
    here, other = ({"d": {"sha256": "1"}, "e": {"sha256": digest}} for digest in "12")
    more = Cell(10, 2, "lp", "e")
    runs = [
        run_of(name, [solved(LP, 0, 1.0), solved(more, 0, 1.0)], data=data)
        for name, data in (("a", here), ("b", other))
    ]
    found = compare(*runs)
    assert [row.cell for row in found.rows] == [LP]
    assert [one.name for one in found.differences] == ["data.e.sha256"]


def test_texts_are_paired_by_prompt_and_repeat() -> None:
    pytest.importorskip("torch")
    from tests.bench.decoding.fakes import NESTED, VANILLA, record

    a = [record(NESTED, prompt, 10, 5, 1.0, repeat=repeat) for prompt in range(6) for repeat in range(2)]
    a += [record(VANILLA, 0, 5, 5), record(NESTED, 9, 10, 5, trial=True)]
    b = [record(NESTED, prompt, 10 + prompt, 5, 2.0) for prompt in range(1, 7)] + [record(NESTED, 9, 10, 5)]
    one, two = (stored(name, "decoding", records) for name, records in (("a", a), ("b", b)))
    found = compare(one, two)
    (row,) = found.rows
    assert (row.cell, row.pairs) == (NESTED, 5)
    tokens = sum(10 + prompt for prompt in range(1, 6))
    assert row.time.ratio.value == pytest.approx((10 / tokens) / (5 / 50))
    assert row.figure.ratio.value == pytest.approx((tokens / 25) / (50 / 25))
    assert found.table().rows[0][:3] == ("T = 1, K = 2, L = 8", "nested", "5")
    assert "block_efficiency" in found.record()["cells"][0]
    with pytest.raises(DataError, match="their prompts are not the same"):
        compare(one, stored("b", "decoding", b, prompts="y"))
