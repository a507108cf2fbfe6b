"""The benchmark's driver: cells over worker processes, each cell within its time budget."""

from __future__ import annotations

import multiprocessing
import os
import platform
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from multiprocessing.connection import Connection
from typing import Any

from otspec.bench.code import package_digest, solver_digest
from otspec.bench.records import Record, RecordFolder
from otspec.bench.solvers.cells import Cell, Sampling, cell_of
from otspec.bench.solvers.worker import Questions, serve
from otspec.data import Source, check_positions
from otspec.reporting.machine import processor, versions
from otspec.reporting.means import group_by

PREPARATION_S = 300.0
"""Longest wait for what is not charged to a cell: imports, compilation, and figures computed off the clock."""


@dataclass(frozen=True)
class Benchmark:
    """What to measure."""

    cells: list[Cell]
    sources: Mapping[str, Source]
    """Where positions come from, by the name that cells have for it."""
    positions: int
    """Positions per cell, from the first on."""
    seed: int = 0
    """Of the drafts."""
    budget_s: float = 20.0
    """Solving time granted to each cell, in seconds.  A position still running then counts as a lower bound."""
    jobs: int = 1
    """Worker processes."""
    sampling: Sampling = field(default_factory=Sampling)

    def __post_init__(self) -> None:
        for source in self.sources.values():
            check_positions(source, self.positions)

    @property
    def identity(self) -> Mapping[str, object]:
        """What makes records comparable with each other.  A budget does not: a larger one adds to what there is."""
        return {
            "benchmark": "solvers",
            "data": {name: source.identity for name, source in self.sources.items()},
            **asdict(self.sampling),
            "seed": self.seed,
            "jobs": self.jobs,
            "processor": processor(),
            "python": platform.python_version(),
            "versions": versions("numpy", "scipy", "numba", "highspy", "igraph", "networkx", "pot", "cvxpy"),
            "code": package_digest(),
        }

    @property
    def count(self) -> int:
        """Positions to measure, over all cells."""
        return len(self.cells) * self.positions

    @property
    def questions(self) -> Questions:
        """The inputs of every solver."""
        return Questions(self.sources, self.sampling, self.seed)

    def forget_stale(self, folder: RecordFolder) -> int:
        """Drop the records of cells whose solver, not one of this package, was edited since; return how many."""
        code = {cell: solver_digest(cell.solver) for cell in self.cells}
        return folder.forget(lambda record: record["code"] != code.get(cell_of(record), record["code"]))


def run(benchmark: Benchmark, folder: RecordFolder, progress: Callable[[int], None] = lambda steps: None) -> None:
    """Measure every cell that the folder does not hold yet, and go on with those that a smaller budget ended.

    `progress` is called with the number of positions just dealt with, measured or not.
    """
    held = group_by(folder.records, cell_of)
    cells: queue.Queue[Cell] = queue.Queue()
    for cell in benchmark.cells:
        cells.put(cell)
    failures: queue.Queue[BaseException] = queue.Queue()
    stop = threading.Event()

    def measure(worker: Worker, cell: Cell) -> None:
        todo = todo_of(benchmark, held.get(cell, ()), cell)
        left = len(todo.positions)
        progress(benchmark.positions - left)
        for record in records_of(worker, todo, stop):
            folder.append(record)
            progress(1)
            left -= 1
        progress(left)

    def work() -> None:
        try:
            with Worker(benchmark.questions) as worker:
                while not stop.is_set():
                    measure(worker, cells.get_nowait())
        except queue.Empty:
            pass
        except BaseException as error:
            failures.put(error)
            stop.set()

    with single_threaded():
        _run_threads([threading.Thread(target=work) for _ in range(min(benchmark.jobs, len(benchmark.cells)))], stop)
    if not failures.empty():
        raise failures.get()


def _run_threads(threads: Sequence[threading.Thread], stop: threading.Event) -> None:
    """Wait for threads; an interrupt, which only the main thread receives, sets `stop` first."""
    for thread in threads:
        thread.start()
    try:
        while any(thread.is_alive() for thread in threads):
            time.sleep(0.02)
    finally:
        stop.set()
        for thread in threads:
            thread.join()


@dataclass(frozen=True)
class PendingCell:
    """What is left to measure of a cell."""

    cell: Cell
    positions: list[int]
    left_s: float
    """Of its time."""
    budget_s: float
    """All of its time."""


def todo_of(benchmark: Benchmark, held: Sequence[Record], cell: Cell) -> PendingCell:
    """What is left of a cell of which some records are held; no positions where its time is spent."""
    # What ran out of a smaller budget is tried again, and only then replaced.
    done = [
        one
        for one in held
        if one["position"] < benchmark.positions
        and (one["status"] != "BUDGET" or one["budget_s"] >= benchmark.budget_s)
    ]
    places = {record["position"] for record in done}
    left_s = benchmark.budget_s - sum(record["wall_s"] for record in done)
    left = [index for index in range(benchmark.positions) if index not in places] if left_s > 0 else []
    return PendingCell(cell, left, left_s, benchmark.budget_s)


def records_of(worker: Worker, todo: PendingCell, stop: threading.Event) -> Iterator[Record]:
    """Records of a cell as they are measured, until its time is spent or `stop` is set."""
    about = {"budget_s": todo.budget_s, "code": solver_digest(todo.cell.solver), "machine": processor()}
    left_s = todo.left_s
    for index in todo.positions:
        if left_s <= 0 or stop.is_set():
            return
        record = worker.measure(todo.cell, index, left_s, stop)
        if record is None:
            return
        if record["status"] == "BUDGET":
            record["message"] += f", the {todo.budget_s:g} s of its cell being spent"
        yield record | about
        left_s -= record["wall_s"]


class Worker:
    """A measuring process that is replaced when it has to be killed, or dies."""

    _starting = threading.Lock()  # processes are started one at a time: spawning is not made for threads

    def __init__(self, questions: Questions) -> None:
        self._questions = questions
        self._process: Any = None
        self._connection: Connection

    def __enter__(self) -> Worker:
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
        failed = {"solved": False, "status": "BUDGET", "message": f"stopped after {elapsed:.3g} s"}
        if kind == "died":
            failed |= {"status": "DIED", "message": f"the measuring process ended with exit code {exit_code}"}
        return asdict(cell) | {"position": index, "wall_s": elapsed} | failed

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs, self._questions), daemon=True)
        try:
            with self._starting:
                self._process.start()
        except (OSError, AssertionError) as error:  # the latter of a process that may have no children
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
def single_threaded() -> Iterator[None]:
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
