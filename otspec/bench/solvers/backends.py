"""Cells measured by the workers of a Dask or a Ray cluster: whole cells are tasks, given out by joblib."""

from __future__ import annotations

import platform
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import CancelledError
from contextlib import contextmanager
from typing import Any

from otspec.bench.code import package_digest
from otspec.bench.records import Record, RecordFolder
from otspec.bench.solvers.cells import cell_of
from otspec.bench.solvers.driver import Benchmark, PendingCell, Worker, records_of, single_threaded, todo_of
from otspec.bench.solvers.worker import Questions
from otspec.errors import ProblemError
from otspec.extras import require
from otspec.reporting.machine import versions
from otspec.reporting.means import group_by

BACKENDS: Mapping[str, tuple[str, ...]] = {"dask": ("joblib", "dask", "distributed"), "ray": ("joblib", "ray")}
"""Names of backends, and the packages that each needs."""


def run_on(
    backend: str, benchmark: Benchmark, folder: RecordFolder, progress: Callable[[int], None], address: str | None
) -> None:
    """Measure as `otspec.bench.run` does, on other workers, and store the records of a cell when it is done.

    Each worker has a measuring process of its own: the time of a cell and what becomes of a solver that hangs, or kills
    its process, are the same as here.  A cell whose worker dies is measured again by another.  `backend` is a name of
    `BACKENDS`, `address` that of a Dask scheduler or a Ray cluster; without one, `jobs` workers are started here.

    Raises
    ------
    ProblemError
        If a worker has other code or versions, or there is no cluster, or it was lost.
    """
    joblib: Any = require("joblib")
    held, environment = group_by(folder.records, cell_of), _environment()

    def tasks() -> Iterator[Any]:
        for cell in benchmark.cells:  # made as they are handed out: of a million cells, those under way
            todo = todo_of(benchmark, held.get(cell, ()), cell)
            progress(benchmark.positions - len(todo.positions))
            if todo.positions:
                yield joblib.delayed(measure_cell)(benchmark.questions, todo, environment)

    cluster = {"dask": _dask, "ray": _ray}[backend](address, benchmark.jobs)
    with cluster as by, joblib.parallel_config(by, n_jobs=-1):
        parallel = joblib.Parallel(return_as="generator_unordered", batch_size=1)
        for todo, records in _results(backend, parallel(tasks())):
            for record in records:
                folder.append(record)
            progress(len(todo.positions))


def _results(
    backend: str, results: Iterator[tuple[PendingCell, list[Record]]]
) -> Iterator[tuple[PendingCell, list[Record]]]:
    """What workers hand back, as it comes; where none is left, an error in one line."""
    lost: tuple[type[BaseException], ...] = (RuntimeError, CancelledError, OSError)  # joblib's, and Dask's
    lost += (require("ray.exceptions").RayError,) if backend == "ray" else ()
    try:
        yield from results
    except lost as error:
        reason = str(error).strip().partition("\n")[0].rstrip(".")
        message = f"{backend} has ended: {reason}; what has been measured is kept, and the same command goes on"
        raise ProblemError(message) from error


def measure_cell(
    questions: Questions, todo: PendingCell, environment: Mapping[str, Any]
) -> tuple[PendingCell, list[Record]]:
    """A task: what is left of one cell, in a process of its own, if the code and versions here are those of the run."""
    for name, here in _environment().items():
        if here != environment[name]:
            message = f"a worker on {platform.node()} has other {name}: {here}, not {environment[name]}"
            raise ProblemError(f"{message}; install the same everywhere")
    with single_threaded(), Worker(questions) as worker:
        return todo, list(records_of(worker, todo, threading.Event()))


def _environment() -> dict[str, Any]:
    """What has to be the same on all workers."""
    found = versions("numpy", "scipy", "numba", "highspy", "igraph", "networkx", "pot", "cvxpy")
    return {"code": package_digest(), "Python": platform.python_version(), "versions": found}


@contextmanager
def _dask(address: str | None, jobs: int) -> Iterator[str]:
    distributed: Any = require("distributed")
    if address is not None:
        try:
            client = distributed.Client(address)
        except (OSError, ValueError) as error:
            message = f"no Dask scheduler answers at {address}: {error}; start one, or leave --address out"
            raise ProblemError(message) from error
        with client:
            yield "dask"
        return
    allowed = require("dask").config.set({"distributed.worker.daemon": False})
    here = distributed.LocalCluster(n_workers=jobs, threads_per_worker=1, dashboard_address=None)
    with allowed, here as cluster, distributed.Client(cluster):
        yield "dask"


@contextmanager
def _ray(address: str | None, jobs: int) -> Iterator[Any]:
    ray: Any = require("ray")
    # Ray's own backend hands back all results at the end; a driver that is killed would lose them.
    base: Any = require("ray.util.joblib.ray_backend").RayBackend
    streaming = type("Streaming", (base,), {"supports_return_generator": True})
    here = {"num_cpus": jobs, "include_dashboard": False} if address is None else {}
    try:
        ray.init(address or "local", log_to_driver=False, logging_level="ERROR", **here)
    except (ConnectionError, RuntimeError, ValueError) as error:
        message = f"no Ray cluster answers: {error}; start one with ray start --head, or leave --address out"
        raise ProblemError(message) from error
    try:
        yield streaming(ray_remote_args={"max_restarts": 3, "max_task_retries": 3})
    finally:
        ray.shutdown()
