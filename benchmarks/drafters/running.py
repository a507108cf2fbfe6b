"""Everything that is learnt and measured, several at once in processes of their own."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from benchmarks.drafters import acceptance, elsewhere, learning
from benchmarks.drafters.plan import FREE, Plan
from otspec.reporting.console import console


def learn(plan: Plan, out: Path, device: str, jobs: int, corpus: Path | None) -> None:
    """Train what the folder does not hold yet, after the texts and the draft models that it begins with."""
    with _processes(jobs) as pool:
        first = [_submit(pool, "texts", learning.texts, plan, out, device)]
        first += [_submit(pool, f"process {number}", learning.as_worker) for number in range(1, jobs)]  # begin at once
        first += [
            _submit(pool, one, learning.begin, one, plan, out, device, corpus) for one in acceptance.beginnings(plan)
        ]
        _finish(first)
        _finish(
            [
                _submit(pool, f"{one.name} {seed}", learning.learn, one, seed, plan, out, device)
                for one, seed in plan.jobs()
            ]
        )


def decode(plan: Plan, out: Path, device: str, jobs: int) -> None:
    """Decode with all that is trained."""
    with _processes(jobs) as pool:
        ready = [(one, seed) for one, seed in plan.jobs() if acceptance.ready(one, seed, out)]
        found = [
            _submit(pool, f"{one.name} {seed}", acceptance.measure, one, seed, plan, out, device) for one, seed in ready
        ]
        found += [_submit(pool, method, acceptance.measure_free, method, plan, out, device) for method in FREE]
        _finish(found)


def decode_elsewhere(plan: Plan, out: Path, tasks: elsewhere.Tasks, device: str, jobs: int) -> None:
    """Decode other kinds of text with all that is trained."""
    with _processes(jobs) as pool:
        ready = [(one, seed) for one, seed in plan.jobs() if acceptance.ready(one, seed, out)]
        _finish(
            [
                _submit(pool, f"{one.name} {seed}", elsewhere.measure, one, seed, plan, out, tasks, device)
                for one, seed in ready
            ]
        )


def _processes(jobs: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), learning.as_worker)


def _timed(label: str, work: Callable[..., Any], *arguments: Any) -> str:
    started = time.perf_counter()
    work(*arguments)
    return f"{label}: {time.perf_counter() - started:.1f} s"


def _submit(pool: ProcessPoolExecutor, label: str, work: Callable[..., Any], *arguments: Any) -> Future[str]:
    return pool.submit(_timed, label, work, *arguments)


def _finish(jobs: list[Future[str]]) -> None:
    """Wait for all; one that fails takes none of the others with it, and is raised in the end."""
    failed = None
    for number, job in enumerate(as_completed(jobs), start=1):
        failed = failed or job.exception()
        message = f"{job.exception()!r}" if job.exception() else job.result()
        console.print(f"{number}/{len(jobs)} {message}", highlight=False, markup=False)
    if failed is not None:
        raise failed
