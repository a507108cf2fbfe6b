"""The benchmark with real worker processes, on a source of a few tokens."""

import json
import re
import threading
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from otspec import IID, DataError, Problem, optimum
from otspec.bench import Benchmark, Cell, run
from otspec.bench.records import Record, RecordFolder
from otspec.bench.schema import SCHEMAS, columns_of
from otspec.bench.solvers.cells import Sampling, cell_of
from otspec.bench.solvers.summary import Row, summarise, went_wrong
from otspec.bench.solvers.worker import Questions, warm_up
from otspec.bench.solvers.worker import measure as measure_one
from otspec.catalogue import get
from otspec.reporting.means import group_by
from otspec.schemes.catalogue import named_schemes
from tests.bench.fakes import HoledSource, SmallSource, Unreadable, moods
from tests.each import each

IDENTITY = {"benchmark": "solvers", "data": "test"}
SMALL = {"": SmallSource()}


def measure(path: Path, cells: list[Cell], positions: int = 3, budget_s: float = 60.0, jobs: int = 1) -> RecordFolder:
    folder = RecordFolder(path, IDENTITY)
    try:
        run(Benchmark(cells, SMALL, positions, budget_s=budget_s, jobs=jobs), folder)
    finally:
        folder.close()
    return folder


CELL = Cell(4, 2, "max_flow")
MOOD = moods()
FIRST = MOOD.index(MOOD[2])


def moody(does: str, position: int) -> Cell:
    """A cell of the solver that misbehaves in the mood of a position."""
    return Cell(4, 2, f"test_moody:{does}_on={MOOD[position]}")


def statuses(folder: RecordFolder, cell: Cell) -> list[str]:
    return [record["status"] for record in records_of(folder, cell)]


def records_of(folder: RecordFolder, cell: Cell) -> list[Record]:
    """Of a cell, by position."""
    return sorted(group_by(folder.records, cell_of).get(cell, []), key=lambda record: record["position"])


def summary_of(folder: RecordFolder, cell: Cell) -> Row:
    (row,) = summarise(records_of(folder, cell))
    return row


def test_measures_every_cell_and_position_and_writes_them_twice(tmp_path: Path) -> None:
    cells = [Cell(4, n, solver) for n in (1, 2) for solver in ("max_flow", "slackness")] + [Cell(0, 2, "max_flow")]
    steps: list[int] = []
    folder = RecordFolder(tmp_path, IDENTITY)
    run(Benchmark(cells, SMALL, 3, jobs=2), folder, steps.append)
    folder.close()
    assert sum(steps) == 15
    for cell in cells:
        records = records_of(folder, cell)
        assert [record["position"] for record in records] == [0, 1, 2]
        for record in records:
            assert record["status"] == "OPTIMAL"
            assert record["wall_s"] > 0
            assert record["acceptance"] == pytest.approx(record["optimum"], abs=1e-9)
    lines = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()]
    table = pl.read_parquet(tmp_path / "results.parquet")
    assert table.columns == list(columns_of(SCHEMAS["solvers"]))
    assert table.to_dicts() == lines == folder.records


def test_resumes_where_an_interrupt_cut_it_even_in_the_middle_of_a_line(tmp_path: Path) -> None:
    whole = measure(tmp_path, [CELL], positions=4).records
    log = tmp_path / "results.jsonl"
    lines = log.read_text().splitlines(keepends=True)
    log.write_text("".join(lines[:2]) + lines[2][:20])
    again = measure(tmp_path, [CELL], positions=4).records
    assert again[:2] == whole[:2]
    assert [record["position"] for record in again] == [0, 1, 2, 3]
    assert again[3]["acceptance"] == whole[3]["acceptance"]
    assert [json.loads(line)["position"] for line in log.read_text().splitlines()] == [0, 1, 2, 3]


def test_adds_positions_and_cells_to_a_finished_run(tmp_path: Path) -> None:
    one = Cell(4, 1, "max_flow")
    first = measure(tmp_path, [one], positions=2).records
    more = measure(tmp_path, [one, CELL], positions=3).records
    assert more[:2] == first
    assert len(more) == 6
    # A run of one cell alone reports all that the folder holds.
    rows = summarise(measure(tmp_path, [CELL]).records)
    assert [(row["k"], row["n"], row["solver"]) for row in rows] == [(4, 1, "max_flow"), (4, 2, "max_flow")]


def test_a_hopeless_position_ends_its_cell_as_a_lower_bound_and_no_other(tmp_path: Path) -> None:
    hanging = moody("hangs", 2)
    folder = measure(tmp_path, [hanging, CELL], positions=5, budget_s=1.0)
    assert statuses(folder, hanging) == ["OPTIMAL"] * FIRST + ["BUDGET"]
    assert 0.9 <= sum(record["wall_s"] for record in records_of(folder, hanging)) < 5
    summary = summary_of(folder, hanging)
    assert summary["lower_bound"]
    assert not summary["refused"]
    assert len(records_of(folder, CELL)) == 5
    before = list(folder.records)
    assert measure(tmp_path, [hanging], positions=5, budget_s=1.0).records == before  # the budget is spent


def test_failures_are_counted_and_successes_told_apart(tmp_path: Path) -> None:
    cell = moody("gives_up", 0)
    folder = measure(tmp_path, [cell], positions=6)
    failed = [index for index in range(6) if MOOD[index] == MOOD[0]]
    assert 0 < len(failed) < 6  # else the test tells nothing apart
    summary = summary_of(folder, cell)
    assert summary["solved"] == 6 - len(failed)
    assert summary["reason"] == "LIMIT: not in the mood"
    times = [record["wall_s"] * 1e3 for record in records_of(folder, cell)]
    solved = [time for index, time in enumerate(times) if index not in failed]
    assert summary["mean"] == pytest.approx(np.mean(solved))
    assert summary["given_up"] == pytest.approx(np.mean([times[index] for index in failed]))
    assert [summary[name] for name in ("low", "median", "high")] == pytest.approx(np.percentile(solved, (25, 50, 75)))


def test_an_interrupt_ends_the_workers_and_keeps_what_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = RecordFolder(tmp_path, IDENTITY)
    before = set(threading.enumerate())  # progress bars of other tests leave a thread of their own

    def interrupt(seconds: float) -> None:
        if len(folder.records) == FIRST:
            raise KeyboardInterrupt

    monkeypatch.setattr("otspec.bench.solvers.driver.time.sleep", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run(Benchmark([moody("hangs", 2)], SMALL, 5), folder)
    folder.close()
    assert set(threading.enumerate()) <= before
    assert all(record["status"] == "OPTIMAL" for record in folder.records)
    assert pl.read_parquet(tmp_path / "results.parquet").height == len(folder.records)


@pytest.mark.parametrize(("does", "status"), [("dies", "DIED"), ("raises", "RAISED")])
def test_a_position_that_kills_its_process_or_raises_is_recorded_and_the_next_goes_on(
    does: str, status: str, tmp_path: Path
) -> None:
    cell = moody(does, 0)
    folder = measure(tmp_path, [cell], positions=4)
    expected = [status if MOOD[index] == MOOD[0] else "OPTIMAL" for index in range(4)]
    assert {status, "OPTIMAL"} == set(expected)  # else the test tells nothing apart
    assert statuses(folder, cell) == expected
    message = records_of(folder, cell)[0]["message"]
    if does == "dies":
        assert summary_of(folder, cell)["reason"] == "DIED: the measuring process ended with exit code 9"
    else:
        assert re.fullmatch(r"ZeroDivisionError: in a mood \(.*fakes\.py, line \d+\)", message)
        assert went_wrong([cell], folder.records)[0] == f"{cell.solver} at (4, 2), position 0: {message}"


def test_a_process_that_cannot_start_is_an_error(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = RecordFolder(tmp_path, IDENTITY)
    with pytest.raises(RuntimeError, match="a measuring process ended at its start, with exit code 1; see above"):
        run(Benchmark([CELL], {"": Unreadable()}, 1), folder)
    folder.close()
    assert "cannot be read back" in capfd.readouterr().err


@pytest.mark.parametrize("positions", [0, 13])
def test_refuses_more_positions_than_there_are(positions: int) -> None:
    with pytest.raises(DataError, match="small has 1 to 12"):
        Benchmark([], SMALL, positions)


def test_more_budget_goes_on_where_a_cell_ran_out(tmp_path: Path) -> None:
    cell = moody("sleeps", 2)  # for half a second
    folder = measure(tmp_path, [cell], positions=FIRST + 2, budget_s=0.2)
    assert statuses(folder, cell) == ["OPTIMAL"] * FIRST + ["BUDGET"]
    cut = records_of(folder, cell)[-1]
    assert re.fullmatch(r"stopped after 0\.\d+ s, the 0\.2 s of its cell being spent", cut["message"])
    again = measure(tmp_path, [cell], positions=FIRST + 2, budget_s=60.0)
    assert statuses(again, cell) == ["OPTIMAL"] * (FIRST + 2)
    assert again.records[:FIRST] == folder.records[:FIRST]
    assert again.added == 2


def test_a_position_that_is_no_problem_is_named_and_the_others_are_measured(tmp_path: Path) -> None:
    cells = [CELL, Cell(4, 2, "slackness")]
    folder = RecordFolder(tmp_path, IDENTITY)
    run(Benchmark(cells, {"": HoledSource()}, 3), folder)
    folder.close()
    assert statuses(folder, CELL) == ["OPTIMAL", "INVALID", "OPTIMAL"]
    expected = "holed, position 1: draft_logits[5] is nan; logits are finite, or -inf for a masked token"
    assert went_wrong(cells, folder.records) == [expected]


def test_a_solver_that_solves_nothing_is_an_error_and_one_out_of_time_is_not() -> None:
    refusing, slow = Cell(4, 2, "lp"), Cell(4, 2, "kseq")
    base = {"data": "", "k": 4, "n": 2, "position": 0, "solved": False}
    about = (("lp", "LIMIT", "too large"), ("kseq", "BUDGET", "stopped"))
    records = [base | dict(zip(("solver", "status", "message"), one, strict=True)) for one in about]
    assert went_wrong([refusing, slow], records) == ["lp solved nothing; too large"]
    assert went_wrong([slow], records) == []


@each(scheme=["iid", "without_replacement", "greedy", "top_k", "hub_pairs"])
def test_every_draft_law_is_measured(scheme: str) -> None:
    questions = Questions(SMALL, Sampling(scheme, temperature=0.7, top_p=0.95), 0)
    cell = Cell(5, 2, "max_flow")
    problem, drafts = questions.pose(cell, 0)
    warm_up(get("max_flow"), questions.sampling.probe(2))
    record = measure_one(cell, 0, problem, drafts, lambda wall_s: None)
    assert record["solved"], record["message"]
    iid = SmallSource().position(0).problem(2, top_k=5, top_p=0.95, temperature=0.7)
    assert isinstance(iid.scheme, IID)
    best = optimum(Problem(iid.p, named_schemes()[scheme](iid.scheme.q, 2)))
    assert record["optimum"] == pytest.approx(best.acceptance, abs=1e-8)
    assert record["acceptance"] == pytest.approx(best.acceptance, abs=1e-8)
