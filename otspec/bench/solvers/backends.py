"""Cells measured by the workers of loky, Dask or Ray: whole cells are tasks, given out by joblib."""

from __future__ import annotations

import multiprocessing
import platform
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import CancelledError
from contextlib import contextmanager
from typing import Any

from otspec.bench.code import package_digest
from otspec.bench.records import Record, RecordFolder
from otspec.bench.solvers.cells import cell_of
from otspec.bench.solvers.driver import Benchmark, Todo, Worker, records_of, single_threaded, todo_of
from otspec.bench.solvers.worker import Questions
from otspec.errors import ProblemError
from otspec.extras import require
from otspec.reporting.machine import versions
from otspec.reporting.means import grouped

BACKENDS: Mapping[str, tuple[str, ...]] = {
    "loky": ("joblib",),
    "dask": ("joblib", "dask", "distributed"),
    "ray": ("joblib", "ray"),
}
"""Names of backends, and the packages that each needs."""
WITH_ADDRESS = ("dask", "ray")
"""Backends that may run elsewhere."""
RESTARTS = 3
"""How often Ray starts a worker again, and what it was measuring, before it gives up."""

Result = tuple[Todo, list[Record]]
"""What is left of a cell, and its records."""


def run_on(
    backend: str,
    benchmark: Benchmark,
    folder: RecordFolder,
    progress: Callable[[int], None] = lambda steps: None,
    address: str | None = None,
) -> None:
    """Measure as `otspec.bench.run` does, on other workers, and keep the records of a cell when it is done.

    Each worker has measuring processes of its own: the time of a cell and what becomes of a solver that hangs, or kills
    its process, are the same as here.  A cell whose worker dies is lost, and measured again: by another worker of Dask
    or Ray, or, with loky, by the same command.

    Parameters
    ----------
    backend : str
        A name of `BACKENDS`.
    benchmark, folder, progress
        As of `otspec.bench.run`.
    address : str, optional
        Of a Dask scheduler, or a Ray cluster (``auto`` finds one on this machine); without one, a cluster of `jobs`
        workers on this machine.  Workers of Dask must be allowed to start processes: distributed.worker.daemon is false
        in their configuration.

    Raises
    ------
    ProblemError
        If there is no such backend, a worker has other code or versions, or the workers were lost.
    MissingExtra
        If joblib, Dask or Ray is not installed.
    """
    _check(backend, address)
    joblib: Any = require("joblib")
    held, environment = grouped(folder.records, cell_of), _environment()

    def tasks() -> Iterator[Any]:
        """Made as they are handed out: of a million cells, those under way."""
        for cell, share in benchmark.shares.items():
            todo = todo_of(benchmark, held.get(cell, ()), cell)
            progress(len(share) - len(todo.positions))
            if todo.positions:
                yield joblib.delayed(measure_cell)(benchmark.questions, todo, environment)

    # A cluster has as many workers as it has.
    count = benchmark.jobs if backend == "loky" else -1
    with _cluster(backend, address, benchmark.jobs) as by, joblib.parallel_config(by, n_jobs=count):
        parallel = joblib.Parallel(return_as="generator_unordered", batch_size=1)
        for todo, records in _results(backend, parallel(tasks())):
            for record in records:
                folder.append(record)
            progress(len(todo.positions))


def _check(backend: str, address: str | None) -> None:
    """Refuse a backend that there is not, an address that it cannot have, and packages that are missing."""
    if backend not in BACKENDS:
        raise ProblemError(f"no backend {backend!r}; known: local, {', '.join(BACKENDS)}")
    if address is not None and backend not in WITH_ADDRESS:
        raise ProblemError(
            f"{backend} runs on this machine and has no address; leave it out, or use {' or '.join(WITH_ADDRESS)}"
        )
    for package in BACKENDS[backend]:
        require(package)


@contextmanager
def _cluster(backend: str, address: str | None, jobs: int) -> Iterator[Any]:
    """What joblib takes to run tasks on a backend: its name, or one that was made for it."""
    if backend == "dask":
        with _dask(address, jobs):
            yield backend
    elif backend == "ray":
        with _ray(address, jobs) as made:
            yield made
    else:
        yield backend


def _results(backend: str, results: Iterator[Result]) -> Iterator[Result]:
    """What workers hand back, as it comes, while there are workers."""
    try:
        yield from results
    except _losses(backend) as error:
        reason = str(error).strip().partition("\n")[0].rstrip(".")
        raise ProblemError(
            f"{backend} has ended: {reason}; what has been measured is kept, and the same command goes on"
        ) from error


def _losses(backend: str) -> tuple[type[BaseException], ...]:
    """The errors that say that workers, or their scheduler, have ended."""
    lost: tuple[type[BaseException], ...] = (RuntimeError, CancelledError, OSError)  # joblib's, and Dask's
    return (*lost, require("ray.exceptions").RayError) if backend == "ray" else lost


def measure_cell(questions: Questions, todo: Todo, environment: Mapping[str, Any]) -> Result:
    """A task: what is left of one cell, in a process of its own.

    Raises
    ------
    ProblemError
        If the code and versions of this worker are not those that were asked for.
    """
    for name, here in _environment().items():
        if here != environment[name]:
            raise ProblemError(
                f"a worker on {platform.node()} has other {name}: {here}, and this run {environment[name]}; install "
                "the same everywhere"
            )
    if multiprocessing.get_start_method() not in multiprocessing.get_all_start_methods():
        # A worker of loky names a method that only loky knows, and the processes that it starts fall over the name.
        multiprocessing.set_start_method("spawn", force=True)
    with single_threaded(), Worker(questions) as worker:
        return todo, list(records_of(worker, todo, threading.Event()))


def _environment() -> dict[str, Any]:
    """What has to be the same on all workers."""
    found = versions("numpy", "scipy", "numba", "highspy", "igraph", "networkx", "cvxpy")
    return {"code": package_digest(), "Python": platform.python_version(), "versions": found}


@contextmanager
def _dask(address: str | None, jobs: int) -> Iterator[None]:
    """A client of a scheduler, or of a cluster of our own."""
    distributed: Any = require("distributed")
    if address is not None:
        try:
            client = distributed.Client(address)
        except (OSError, ValueError) as error:
            raise ProblemError(
                f"no Dask scheduler answers at {address}: {error}; start one, or leave --address out"
            ) from error
        with client:
            yield
        return
    dask: Any = require("dask")
    with (
        dask.config.set({"distributed.worker.daemon": False}),
        distributed.LocalCluster(n_workers=jobs, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster),
    ):
        yield


@contextmanager
def _ray(address: str | None, jobs: int) -> Iterator[Any]:
    """A backend of joblib on a Ray cluster, or on one of our own."""
    ray: Any = require("ray")
    backend: Any = require("ray.util.joblib.ray_backend").RayBackend

    class Streaming(backend):  # type: ignore[misc]
        """Ray's own backend hands back all results at the end; a driver that is killed would lose them."""

        supports_return_generator = True

    here = {"num_cpus": jobs, "include_dashboard": False} if address is None else {}
    try:
        ray.init(address or "local", log_to_driver=False, logging_level="ERROR", **here)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise ProblemError(
            f"no Ray cluster answers at {address or 'this machine'}: {error}; start one with ray start --head, or "
            "leave --address out"
        ) from error
    try:
        yield Streaming(ray_remote_args={"max_restarts": RESTARTS, "max_task_retries": RESTARTS})
    finally:
        ray.shutdown()
