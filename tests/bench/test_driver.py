"""The benchmark with real worker processes, on a source of a few tokens."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import numpy as np
import pytest

from otspec import DataError
from otspec.bench import Benchmark, Cell, run
from otspec.bench.records import COLUMNS, RunFolder
from otspec.bench.summary import Summary, summarise
from tests.bench.fakes import SmallSource, Unreadable, moods

pq = pytest.importorskip("pyarrow.parquet")
IDENTITY = {"data": "test"}


def measure(path: Path, cells: list[Cell], positions: int = 3, budget_s: float = 60.0, jobs: int = 1) -> RunFolder:
    folder = RunFolder(path, IDENTITY)
    try:
        run(Benchmark(cells, SmallSource(), positions, budget_s=budget_s, jobs=jobs), folder)
    finally:
        folder.close()
    return folder


def summary_of(folder: RunFolder, cell: Cell) -> Summary:
    return summarise(cell, folder.of(cell))


def test_measures_every_cell_and_position_and_writes_them_twice(tmp_path: Path) -> None:
    cells = [Cell(4, n, solver) for n in (1, 2) for solver in ("max_flow", "slackness")] + [Cell(0, 2, "max_flow")]
    steps: list[int] = []
    folder = RunFolder(tmp_path, IDENTITY)
    run(Benchmark(cells, SmallSource(), 3, jobs=2), folder, steps.append)
    folder.close()
    assert sum(steps) == 15
    for cell in cells:
        records = folder.of(cell)
        assert [record["position"] for record in records] == [0, 1, 2]
        for record in records:
            assert record["status"] == "OPTIMAL"
            assert record["wall_s"] > 0
            assert record["acceptance"] == pytest.approx(record["optimum"], abs=1e-9)
    lines = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()]
    table = pq.read_table(tmp_path / "results.parquet")
    assert table.column_names == list(COLUMNS)
    assert table.to_pylist() == lines == folder.records


def test_resumes_where_an_interrupt_cut_it_even_in_the_middle_of_a_line(tmp_path: Path) -> None:
    cell = Cell(4, 2, "max_flow")
    whole = measure(tmp_path, [cell], positions=4).records
    log = tmp_path / "results.jsonl"
    lines = log.read_text().splitlines(keepends=True)
    log.write_text("".join(lines[:2]) + lines[2][:20])
    again = measure(tmp_path, [cell], positions=4).records
    assert again[:2] == whole[:2]
    assert [record["position"] for record in again] == [0, 1, 2, 3]
    assert again[3]["acceptance"] == whole[3]["acceptance"]
    assert [json.loads(line)["position"] for line in log.read_text().splitlines()] == [0, 1, 2, 3]


def test_adds_positions_and_cells_to_a_finished_run(tmp_path: Path) -> None:
    first = measure(tmp_path, [Cell(4, 1, "max_flow")], positions=2).records
    more = measure(tmp_path, [Cell(4, 1, "max_flow"), Cell(4, 2, "max_flow")], positions=3).records
    assert more[:2] == first
    assert len(more) == 6
    # A run of one cell alone reports all that the folder holds.
    assert measure(tmp_path, [Cell(4, 2, "max_flow")]).cells == [Cell(4, 1, "max_flow"), Cell(4, 2, "max_flow")]


def test_a_hopeless_position_ends_its_cell_as_a_lower_bound_and_no_other(tmp_path: Path) -> None:
    mood = moods()
    hanging = Cell(4, 2, f"test_moody:hangs_on={mood[2]}")
    first = mood.index(mood[2])
    folder = measure(tmp_path, [hanging, Cell(4, 2, "max_flow")], positions=5, budget_s=1.0)
    records = folder.of(hanging)
    assert [record["status"] for record in records] == ["OPTIMAL"] * first + ["BUDGET"]
    assert 0.9 <= sum(record["wall_s"] for record in records) < 5
    summary = summary_of(folder, hanging)
    assert summary.lower_bound
    assert not summary.refused
    assert len(folder.of(Cell(4, 2, "max_flow"))) == 5
    before = list(folder.records)
    assert measure(tmp_path, [hanging], positions=5, budget_s=1.0).records == before  # the budget is spent


def test_failures_are_counted_and_successes_told_apart(tmp_path: Path) -> None:
    mood = moods()
    cell = Cell(4, 2, f"test_moody:gives_up_on={mood[0]}")
    folder = measure(tmp_path, [cell], positions=6)
    failed = [index for index in range(6) if mood[index] == mood[0]]
    assert 0 < len(failed) < 6  # else the test tells nothing apart
    summary = summary_of(folder, cell)
    assert summary.solved == 6 - len(failed)
    assert summary.reason == "LIMIT: not in the mood"
    times = [record["wall_s"] * 1e3 for record in folder.of(cell)]
    assert summary.mean_ms == pytest.approx(np.mean(times))
    solved = [time for index, time in enumerate(times) if index not in failed]
    assert summary.solved_mean_ms == pytest.approx(np.mean(solved))
    assert summary.quartiles_ms == pytest.approx(np.percentile(times, (25, 50, 75)))


def test_an_interrupt_ends_the_workers_and_keeps_what_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = Cell(4, 2, f"test_moody:hangs_on={moods()[2]}")
    folder = RunFolder(tmp_path, IDENTITY)
    before = set(threading.enumerate())  # progress bars of other tests leave a thread of their own

    def interrupt(seconds: float) -> None:
        if len(folder.records) == moods().index(moods()[2]):
            raise KeyboardInterrupt

    monkeypatch.setattr("otspec.bench.driver.time.sleep", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run(Benchmark([cell], SmallSource(), 5), folder)
    folder.close()
    assert set(threading.enumerate()) <= before
    assert all(record["status"] == "OPTIMAL" for record in folder.records)
    assert pq.read_table(tmp_path / "results.parquet").num_rows == len(folder.records)


def test_a_position_that_kills_its_process_is_recorded_and_the_next_goes_on(tmp_path: Path) -> None:
    mood = moods()
    cell = Cell(4, 2, f"test_moody:dies_on={mood[0]}")
    folder = measure(tmp_path, [cell], positions=4)
    expected = ["DIED" if mood[index] == mood[0] else "OPTIMAL" for index in range(4)]
    assert {"DIED", "OPTIMAL"} == set(expected)  # else the test tells nothing apart
    assert [record["status"] for record in folder.of(cell)] == expected
    assert summary_of(folder, cell).reason == "DIED: the measuring process ended with exit code 9"


def test_a_process_that_cannot_start_is_an_error(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = RunFolder(tmp_path, IDENTITY)
    with pytest.raises(RuntimeError, match="a measuring process ended at its start, with exit code 1; see above"):
        run(Benchmark([Cell(4, 2, "max_flow")], Unreadable(), 1), folder)
    folder.close()
    assert "cannot be read back" in capfd.readouterr().err


@pytest.mark.parametrize("positions", [0, 13])
def test_refuses_more_positions_than_there_are(positions: int) -> None:
    with pytest.raises(DataError, match="small has 1 to 12"):
        Benchmark([], SmallSource(), positions)
