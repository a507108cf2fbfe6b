"""Cells measured by other workers: the same records, whatever happens to a worker."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from otspec import ProblemError
from otspec.bench import Benchmark, Cell
from otspec.bench.backends import measure_cell, run_on
from otspec.bench.driver import todo_of
from otspec.bench.records import Record, RunFolder
from otspec.bench.shards import Shard
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
def folder(tmp_path: Path) -> Iterator[RunFolder]:
    made = RunFolder(tmp_path, asked().identity)
    yield made
    made.close()


def test_loky_leaves_what_local_processes_leave_and_goes_on_with_what_is_left(folder: RunFolder) -> None:
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


def test_dask_measures_again_what_a_killed_worker_had(folder: RunFolder) -> None:
    distributed = pytest.importorskip("distributed")
    dask = pytest.importorskip("dask")
    killed: list[int] = []
    settings = {"distributed.worker.daemon": False}
    with (
        dask.config.set(settings),
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
    ):

        def kill(steps: int) -> None:
            """Once the first cell is back: the worker that has the cell which hangs, and so a cell to lose."""
            if folder.records and not killed:
                with distributed.Client(cluster) as client:
                    busy = [worker for worker, tasks in client.processing().items() if tasks]
                    (process, *_) = client.run(os.getpid, workers=busy[:1]).values()
                killed.append(process)
                os.kill(process, signal.SIGKILL)

        run_on("dask", asked(), folder, kill, cluster.scheduler_address)
    assert killed
    assert [row[:3] for row in rows(folder.records)] == expected()


def test_a_worker_with_other_code_is_refused(folder: RunFolder) -> None:
    benchmark = asked()
    todo = todo_of(benchmark, (), CELLS[0])
    with pytest.raises(ProblemError, match=r"has other code: .*, and this run x; install the same everywhere"):
        measure_cell(benchmark.questions, todo, {"code": "x"})


def test_what_there_is_not_is_refused(folder: RunFolder) -> None:
    with pytest.raises(ProblemError, match="no backend 'slurm'; known: local, loky, dask"):
        run_on("slurm", asked(), folder)
    with pytest.raises(ProblemError, match="loky runs on this machine and has no address"):
        run_on("loky", asked(), folder, address="tcp://x:1")


def test_nothing_is_left_of_a_cell_whose_time_is_spent() -> None:
    benchmark = asked()
    record = {"position": 0, "status": "OPTIMAL", "wall_s": 1.0, "budget_s": 4.0}
    todo = todo_of(benchmark, [record], CELLS[0])
    assert (todo.positions, todo.left_s, todo.granted_s) == ([1, 2, 3], 3.0, 4.0)
    late = {**record, "position": 1, "status": "BUDGET", "wall_s": 3.0}
    assert todo_of(benchmark, [record, late], CELLS[0]).positions == []
    assert todo_of(replace(benchmark, budget_s=9.0), [record, late], CELLS[0]).positions == [1, 2, 3]
