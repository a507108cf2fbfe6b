"""The benchmark with real worker processes, on a source of a few tokens."""

import json
import re
import shutil
import threading
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from otspec import IID, Problem, optimum, solve
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
POSITIONS, BUDGET_S = 5, 1.0
MOOD = moods()
FIRST = MOOD.index(MOOD[2])


def moody(does: str, position: int) -> Cell:
    """A cell of the solver that misbehaves in the mood of a position."""
    return Cell(4, 2, f"test_moody:{does}_on={MOOD[position]}")


CELL = Cell(4, 2, "max_flow")
HOLED = [Cell(4, 2, solver, "holed") for solver in ("max_flow", "slackness")]
SOLVED = [CELL, Cell(4, 1, "max_flow"), Cell(4, 1, "slackness"), Cell(4, 2, "slackness"), Cell(0, 2, "max_flow")]
SLOW, GIVES_UP, DIES, RAISES = moody("sleeps", 2), moody("gives_up", 0), moody("dies", 2), moody("raises", 0)
CELLS = [*SOLVED, SLOW, GIVES_UP, DIES, RAISES, *HOLED]


def measure(path: Path, cells: list[Cell], positions: int = POSITIONS, budget_s: float = BUDGET_S) -> RecordFolder:
    folder = RecordFolder(path, IDENTITY)
    try:
        run(Benchmark(cells, SMALL, positions, budget_s=budget_s), folder)
    finally:
        folder.close()
    return folder


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> RecordFolder:
    """All cells, by two processes: each one that is started takes seconds of imports."""
    folder, steps = RecordFolder(tmp_path_factory.mktemp("measured"), IDENTITY), list[int]()
    sources = SMALL | {"holed": HoledSource()}
    run(Benchmark(CELLS, sources, POSITIONS, budget_s=BUDGET_S, jobs=2), folder, steps.append)
    folder.close()
    assert sum(steps) == len(CELLS) * POSITIONS
    return folder


@pytest.fixture
def path(measured: RecordFolder, tmp_path: Path) -> Path:
    """A copy of the folder of that run, to go on with."""
    return Path(shutil.copytree(measured.path, tmp_path / "copy"))


def statuses(folder: RecordFolder, cell: Cell) -> list[str]:
    return [record["status"] for record in records_of(folder, cell)]


def records_of(folder: RecordFolder, cell: Cell) -> list[Record]:
    """Of a cell, by position."""
    return sorted(group_by(folder.records, cell_of).get(cell, []), key=lambda record: record["position"])


def summary_of(folder: RecordFolder, cell: Cell) -> Row:
    (row,) = summarise(records_of(folder, cell))
    return row


def in_mood(position: int) -> list[bool]:
    """Whether the mood of each position is that of one of them; it is that of some and not of all."""
    found = [mood == MOOD[position] for mood in MOOD[:POSITIONS]]
    assert set(found) == {True, False}
    return found


def test_every_cell_and_position_is_measured_and_written_twice(measured: RecordFolder) -> None:
    for cell in SOLVED:
        records = records_of(measured, cell)
        assert [record["position"] for record in records] == [*range(POSITIONS)]
        for record in records:
            assert record["status"] == "OPTIMAL"
            assert record["wall_s"] > 0
            assert record["acceptance"] == pytest.approx(record["optimum"], abs=1e-9)
    lines = [json.loads(line) for line in (measured.path / "results.jsonl").read_text().splitlines()]
    table = pl.read_parquet(measured.path / "results.parquet")
    assert table.columns == list(columns_of(SCHEMAS["solvers"]))
    assert lines == measured.records
    assert table.to_dicts() == [dict.fromkeys(table.columns) | line for line in lines]


def test_failures_are_counted_and_successes_told_apart(measured: RecordFolder) -> None:
    summary, failed = summary_of(measured, GIVES_UP), np.array(in_mood(0))
    assert summary["solved"] == (~failed).sum()
    assert summary["reason"] == "LIMIT: not in the mood"
    times = np.array([record["wall_s"] * 1e3 for record in records_of(measured, GIVES_UP)])
    assert summary["mean"] == pytest.approx(times[~failed].mean())
    assert summary["given_up"] == pytest.approx(times[failed].mean())
    quartiles = np.percentile(times[~failed], (25, 50, 75))
    assert [summary[name] for name in ("low", "median", "high")] == pytest.approx(quartiles)


def test_a_position_that_kills_its_process_or_raises_or_is_none_is_recorded_and_the_next_goes_on(
    measured: RecordFolder,
) -> None:
    assert statuses(measured, DIES) == ["DIED" if mood else "OPTIMAL" for mood in in_mood(2)]
    assert summary_of(measured, DIES)["reason"] == "DIED: the measuring process ended with exit code 9"
    assert statuses(measured, RAISES) == ["RAISED" if mood else "OPTIMAL" for mood in in_mood(0)]
    message = records_of(measured, RAISES)[0]["message"]
    assert re.fullmatch(r"ZeroDivisionError: in a mood \(.*fakes\.py, line \d+\)", message)
    for cell in HOLED:
        assert statuses(measured, cell) == ["OPTIMAL", "INVALID", *(POSITIONS - 2) * ["OPTIMAL"]]
    assert went_wrong([RAISES], measured.records)[0] == f"{RAISES.solver} at (4, 2), position 0: {message}"
    expected = "holed, position 1: draft_logits[5] is nan; logits are finite, or -inf for a masked token"
    assert went_wrong(HOLED, measured.records) == [expected]


def test_a_hopeless_position_ends_its_cell_as_a_lower_bound_until_there_is_more_budget(
    measured: RecordFolder, path: Path
) -> None:
    assert statuses(measured, SLOW) == ["OPTIMAL"] * FIRST + ["BUDGET"]
    *before, cut = records_of(measured, SLOW)
    assert sum(record["wall_s"] for record in [*before, cut]) >= 0.9 * BUDGET_S
    assert re.fullmatch(r"stopped after \d(\.\d+)? s, the 1 s of its cell being spent", cut["message"])
    summary = summary_of(measured, SLOW)
    assert summary["lower_bound"]
    assert not summary["refused"]
    assert measure(path, [SLOW]).records == measured.records  # the budget is spent
    again = measure(path, [SLOW], FIRST + 2, budget_s=60.0)
    assert statuses(again, SLOW) == ["OPTIMAL"] * (FIRST + 2)
    assert records_of(again, SLOW)[:FIRST] == before
    assert again.added == 2


def test_goes_on_with_more_cells_and_positions_where_an_interrupt_cut_it_even_in_the_middle_of_a_line(
    measured: RecordFolder, path: Path
) -> None:
    log = path / "results.jsonl"
    lines = [line for line in log.read_text().splitlines(keepends=True) if cell_of(json.loads(line)) == CELL]
    log.write_text("".join(lines[:2]) + lines[2][:20])
    another = Cell(4, 1, "max_flow")
    again = measure(path, [another, CELL], POSITIONS + 1)
    assert again.records[:2] == records_of(measured, CELL)[:2]
    for cell in (another, CELL):
        records = records_of(again, cell)
        assert [record["position"] for record in records] == [*range(POSITIONS + 1)]
        for record, earlier in zip(records, records_of(measured, cell), strict=False):
            assert record["acceptance"] == earlier["acceptance"]
    assert [json.loads(line) for line in log.read_text().splitlines()] == again.records
    # A run of one cell alone reports all that the folder holds.
    assert {cell_of(record) for record in measure(path, [CELL]).records} == {another, CELL}


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


def test_a_process_that_cannot_start_is_an_error(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = RecordFolder(tmp_path, IDENTITY)
    with pytest.raises(RuntimeError, match="a measuring process ended at its start, with exit code 1; see above"):
        run(Benchmark([CELL], {"": Unreadable()}, 1), folder)
    folder.close()
    assert "cannot be read back" in capfd.readouterr().err


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
    warm_up(get("max_flow"), probe := questions.sampling.probe(2))
    assert solve(probe, "submodular").stats.sizes["steps"] > 0  # else what a step compiles would be timed
    record = measure_one(cell, 0, problem, drafts, lambda wall_s: None)
    assert record["solved"], record["message"]
    iid = SmallSource().position(0).problem(2, top_k=5, top_p=0.95, temperature=0.7)
    assert isinstance(iid.scheme, IID)
    best = optimum(Problem(iid.p, named_schemes()[scheme](iid.scheme.q, 2)))
    assert record["optimum"] == pytest.approx(best.acceptance, abs=1e-8)
    assert record["acceptance"] == pytest.approx(best.acceptance, abs=1e-8)
