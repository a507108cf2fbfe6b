"""Cells measured by other workers: the same records, whatever happens to a worker."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import CancelledError
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from otspec import ProblemError
from otspec.bench import Benchmark, Cell
from otspec.bench.records import Record, RecordFolder
from otspec.bench.shards import Shard
from otspec.bench.solvers.backends import _results, measure_cell, run_on
from otspec.bench.solvers.driver import todo_of
from tests.bench.clusters import QUIET
from tests.bench.fakes import SmallSource, moods

pytest.importorskip("pyarrow")
joblib = pytest.importorskip("joblib")

MOOD = moods()
HANGS = Cell(4, 2, f"test_moody:hangs_on={MOOD[2]}")
DIES = Cell(4, 2, f"test_moody:dies_on={MOOD[0]}")
CELLS = [Cell(4, 2, "max_flow"), HANGS, DIES]


def asked(**settings: Any) -> Benchmark:
    return Benchmark(CELLS, {"": SmallSource()}, 4, **{"budget_s": 4.0, "jobs": 2, **settings})


def rows(records: list[Record]) -> list[tuple[Any, ...]]:
    return sorted((one["solver"], one["position"], one["status"], one.get("acceptance")) for one in records)


def expected() -> list[tuple[str, int, str]]:
    """What the driver leaves of these cells, see test_driver: a lower bound where one hangs, and nothing after it."""
    first = MOOD.index(MOOD[2])
    found = [("max_flow", at, "OPTIMAL") for at in range(4)]
    found += [(DIES.solver, at, "DIED" if MOOD[at] == MOOD[0] else "OPTIMAL") for at in range(4)]
    found += [(HANGS.solver, at, "OPTIMAL") for at in range(first)] + [(HANGS.solver, first, "BUDGET")]
    return sorted(found)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[RecordFolder]:
    made = RecordFolder(tmp_path, asked().identity)
    yield made
    made.close()


def test_loky_leaves_what_local_processes_leave_and_goes_on_with_what_is_left(folder: RecordFolder) -> None:
    steps: list[int] = []
    try:
        first = Benchmark(CELLS[:1], {"": SmallSource()}, 4, budget_s=4.0, jobs=2, shard=Shard(1, 2))
        run_on("loky", first, folder, steps.append)
        half = list(folder.records)
        assert sum(steps) == first.count == len(half) == 2
        run_on("loky", asked(), folder, steps.append)
        assert sum(steps) == first.count + asked().count
    finally:
        joblib.externals.loky.get_reusable_executor().shutdown(wait=True)
    assert folder.records[:2] == half
    assert [row[:3] for row in rows(folder.records)] == expected()
    assert {one["budget_s"] for one in folder.records} == {4.0}
    assert all(one["machine"] for one in folder.records)


def test_dask_leaves_what_local_processes_leave(folder: RecordFolder) -> None:
    """Workers that are threads: test_kills has such as can be killed."""
    distributed = pytest.importorskip("distributed")
    few = Benchmark(CELLS[:1], {"": SmallSource()}, 4, budget_s=4.0, jobs=2)
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None
    ) as cluster:
        run_on("dask", few, folder, address=cluster.scheduler_address)
    assert [row[:3] for row in rows(folder.records)] == [row for row in expected() if row[0] == "max_flow"]


@pytest.mark.slow
def test_ray_leaves_what_local_processes_leave(folder: RecordFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray")
    for name, value in QUIET.items():
        monkeypatch.setenv(name, value)
    run_on("ray", asked(), folder)
    assert [row[:3] for row in rows(folder.records)] == expected()


def test_a_worker_with_other_code_is_refused(folder: RecordFolder) -> None:
    benchmark = asked()
    todo = todo_of(benchmark, (), CELLS[0])
    with pytest.raises(ProblemError, match=r"has other code: .*, and this run x; install the same everywhere"):
        measure_cell(benchmark.questions, todo, {"code": "x"})


def test_what_there_is_not_is_refused(folder: RecordFolder) -> None:
    with pytest.raises(ProblemError, match="no backend 'slurm'; known: local, loky, dask, ray"):
        run_on("slurm", asked(), folder)
    with pytest.raises(
        ProblemError, match="loky runs on this machine and has no address; leave it out, or use dask or"
    ):
        run_on("loky", asked(), folder, address="tcp://x:1")


@pytest.mark.parametrize("lost", [RuntimeError("gone\nat once"), CancelledError("gone."), OSError("gone")])
def test_workers_that_are_lost_are_told_of_and_what_the_caller_raises_is_not(lost: BaseException) -> None:
    def results() -> Iterator[Any]:
        yield 1
        raise lost

    with pytest.raises(ProblemError, match=r"^dask has ended: gone; what has been measured is kept"):
        list(_results("dask", results()))

    def keep() -> None:
        for _ in _results("dask", results()):
            raise OSError("disk is full")

    with pytest.raises(OSError, match="disk is full"):
        keep()


def test_nothing_is_left_of_a_cell_whose_time_is_spent() -> None:
    benchmark = asked()
    record = {"position": 0, "status": "OPTIMAL", "wall_s": 1.0, "budget_s": 4.0}
    todo = todo_of(benchmark, [record], CELLS[0])
    assert (todo.positions, todo.left_s, todo.granted_s) == ([1, 2, 3], 3.0, 4.0)
    late = {**record, "position": 1, "status": "BUDGET", "wall_s": 3.0}
    assert todo_of(benchmark, [record, late], CELLS[0]).positions == []
    assert todo_of(replace(benchmark, budget_s=9.0), [record, late], CELLS[0]).positions == [1, 2, 3]
