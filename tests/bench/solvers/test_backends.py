"""Cells measured by other workers: the same records, whatever happens to a worker."""

from collections.abc import Iterator
from concurrent.futures import CancelledError
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from otspec import ProblemError
from otspec.bench import Benchmark, Cell
from otspec.bench.records import RecordFolder
from otspec.bench.solvers.backends import _results, measure_cell, run_on
from otspec.bench.solvers.driver import todo_of
from tests.bench.fakes import SmallSource, moods

pytest.importorskip("joblib")

MOOD = moods()
HANGS = Cell(4, 2, f"test_moody:hangs_on={MOOD[2]}")
DIES = Cell(4, 2, f"test_moody:dies_on={MOOD[0]}")
CELLS = [Cell(4, 2, "max_flow"), HANGS, DIES]
QUIET = {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}
"""Ray without a token in the home folder, and without a word to anyone."""


def request(**settings: Any) -> Benchmark:
    return Benchmark(CELLS, {"": SmallSource()}, 4, **{"budget_s": 4.0, "jobs": 2, **settings})


def rows(folder: RecordFolder) -> list[tuple[str, int, str]]:
    return sorted((one["solver"], one["position"], one["status"]) for one in folder.records)


def expected() -> list[tuple[str, int, str]]:
    """What the driver leaves of these cells, see test_driver: a lower bound where one hangs, and nothing after it."""
    first = MOOD.index(MOOD[2])
    found = [("max_flow", at, "OPTIMAL") for at in range(4)]
    found += [(DIES.solver, at, "DIED" if MOOD[at] == MOOD[0] else "OPTIMAL") for at in range(4)]
    found += [(HANGS.solver, at, "OPTIMAL") for at in range(first)] + [(HANGS.solver, first, "BUDGET")]
    return sorted(found)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[RecordFolder]:
    made = RecordFolder(tmp_path, request().identity)
    yield made
    made.close()


def test_dask_leaves_what_local_processes_leave_and_goes_on_with_what_is_left(folder: RecordFolder) -> None:
    """Workers that are threads, on a scheduler that is there."""
    distributed = pytest.importorskip("distributed")
    few = Benchmark(CELLS[:1], {"": SmallSource()}, 4, budget_s=4.0, jobs=2)
    steps: list[int] = []
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None
    ) as cluster:
        run_on("dask", replace(few, positions=2), folder, steps.append, cluster.scheduler_address)
        half = list(folder.records)
        assert sum(steps) == len(half) == 2
        run_on("dask", few, folder, steps.append, cluster.scheduler_address)
    assert sum(steps) == 6
    assert folder.records[:2] == half
    assert rows(folder) == [row for row in expected() if row[0] == "max_flow"]


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["dask", "ray"])
def test_a_cluster_of_our_own_survives_what_solvers_do(
    backend: str, folder: RecordFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("distributed" if backend == "dask" else "ray")
    for name, value in QUIET.items():
        monkeypatch.setenv(name, value)
    run_on(backend, request(), folder, lambda steps: None, None)
    assert rows(folder) == expected()


def test_a_worker_with_other_code_is_refused() -> None:
    benchmark = request()
    todo = todo_of(benchmark, (), CELLS[0])
    with pytest.raises(ProblemError, match=r"has other code: .*, not x; install the same everywhere"):
        measure_cell(benchmark.questions, todo, {"code": "x"})


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
