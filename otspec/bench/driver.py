"""The benchmark's driver: cells over worker processes, each cell within its time budget."""

from __future__ import annotations

import multiprocessing
import os
import platform
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from typing import Any

from otspec.bench.cells import Cell
from otspec.bench.records import Record, RunFolder
from otspec.bench.worker import serve
from otspec.data import Source, check_positions
from otspec.reporting.machine import processor, versions

PREPARATION_S = 300.0
"""Longest wait for what is not charged to a cell: imports, compilation, and figures computed off the clock."""


@dataclass(frozen=True)
class Benchmark:
    """What to measure."""

    cells: list[Cell]
    source: Source
    positions: int
    """Positions per cell, from the first on."""
    seed: int = 0
    """Of the drafts."""
    budget_s: float = 20.0
    """Solving time granted to each cell, in seconds.  A position still running then counts as a lower bound."""
    jobs: int = 1
    """Worker processes."""

    def __post_init__(self) -> None:
        check_positions(self.source, self.positions)

    @property
    def identity(self) -> Mapping[str, object]:
        """What makes records comparable with each other."""
        return {
            "data": self.source.identity,
            "seed": self.seed,
            "budget_s": self.budget_s,
            "jobs": self.jobs,
            "processor": processor(),
            "python": platform.python_version(),
            "versions": versions("numpy", "scipy", "numba", "highspy", "igraph", "networkx", "cvxpy"),
        }


def run(benchmark: Benchmark, folder: RunFolder, progress: Callable[[int], None] = lambda steps: None) -> None:
    """Measure every cell that the folder does not hold yet.

    Parameters
    ----------
    benchmark : Benchmark
    folder : RunFolder
        Receives a record per position as it is measured.
    progress : callable
        Called with the number of positions just dealt with, measured or not.
    """
    cells: queue.Queue[Cell] = queue.Queue()
    for cell in benchmark.cells:
        cells.put(cell)
    failures: queue.Queue[BaseException] = queue.Queue()
    stop = threading.Event()

    def work() -> None:
        try:
            with _Worker(benchmark.source, benchmark.seed) as worker:
                while not stop.is_set():
                    _measure_cell(benchmark, folder, worker, cells.get_nowait(), stop, progress)
        except queue.Empty:
            pass
        except BaseException as error:
            failures.put(error)
            stop.set()

    threads = [threading.Thread(target=work) for _ in range(min(benchmark.jobs, len(benchmark.cells)))]
    with _single_threaded():
        for thread in threads:
            thread.start()
        try:
            while any(thread.is_alive() for thread in threads):
                time.sleep(0.02)
        finally:
            stop.set()
            for thread in threads:
                thread.join()
    if not failures.empty():
        raise failures.get()


def _measure_cell(
    benchmark: Benchmark,
    folder: RunFolder,
    worker: _Worker,
    cell: Cell,
    stop: threading.Event,
    progress: Callable[[int], None],
) -> None:
    done = folder.done(cell)
    todo = [index for index in range(benchmark.positions) if index not in done]
    progress(benchmark.positions - len(todo))
    left_s = benchmark.budget_s - folder.spent_s(cell)
    while todo and left_s > 0 and not stop.is_set():
        record = worker.measure(cell, todo[0], left_s, stop)
        if record is None:
            break
        folder.append(record)
        left_s -= record["wall_s"]
        todo.pop(0)
        progress(1)
    progress(len(todo))


class _Worker:
    """A measuring process that is replaced when it has to be killed, or dies."""

    _starting = threading.Lock()  # processes are started one at a time: spawning is not made for threads

    def __init__(self, source: Source, seed: int) -> None:
        self._source = source
        self._seed = seed
        self._process: Any = None
        self._connection: Connection

    def __enter__(self) -> _Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self._kill()

    def measure(self, cell: Cell, index: int, left_s: float, stop: threading.Event) -> Record | None:
        """The record of one position, None if `stop` was set.

        Its status is BUDGET if the position takes longer than `left_s`, DIED if the process does not survive it.
        """
        if self._process is None:
            self._start()
        self._connection.send((cell, index))
        started = time.monotonic()
        kind, value = self._await(PREPARATION_S, stop)
        if kind == "start":
            started = time.monotonic()
            kind, value = self._await(left_s, stop)
        elapsed = time.monotonic() - started
        if kind == "timed":
            elapsed = value
            kind, value = self._await(PREPARATION_S, stop)
        if kind == "record":
            record: Record = value
            return record
        exit_code = self._kill(grace_s=5.0 if kind == "died" else 0.0)
        if stop.is_set():
            return None
        failed = {"solved": False, "status": "BUDGET", "message": f"stopped when the cell had used its {left_s:.3g} s"}
        if kind == "died":
            failed |= {"status": "DIED", "message": f"the measuring process ended with exit code {exit_code}"}
        return asdict(cell) | {"position": index, "wall_s": elapsed} | failed

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs, self._source, self._seed), daemon=True)
        try:
            with self._starting:
                self._process.start()
        except OSError as error:
            raise RuntimeError(f"a measuring process could not be started: {error}") from error
        theirs.close()
        kind, _ = self._await(PREPARATION_S, threading.Event())
        if kind != "ready":
            raise RuntimeError(f"a measuring process ended at its start, with exit code {self._kill(5.0)}; see above")

    def _await(self, seconds: float, stop: threading.Event) -> tuple[str, Any]:
        """The next message; ("late", None) if none comes in time or `stop` is set, ("died", None) if none can come."""
        deadline = time.monotonic() + seconds
        while not stop.is_set() and (left := deadline - time.monotonic()) > 0:
            try:
                if self._connection.poll(min(0.1, left)):
                    message: tuple[str, Any] = self._connection.recv()
                    return message
            except (EOFError, OSError):
                return "died", None
        return "late", None

    def _kill(self, grace_s: float = 0.0) -> int | None:
        """End the process, if there is one, and return its exit code; one that ends in time by itself has its own."""
        if self._process is None:
            return None
        self._process.join(grace_s)
        self._process.kill()
        self._process.join()
        self._connection.close()
        exit_code: int | None = self._process.exitcode
        self._process = None
        return exit_code


@contextmanager
def _single_threaded() -> Iterator[None]:
    """Environment in which numeric libraries start with one thread: every solver gets one core."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(dict.fromkeys(names, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
