"""Everything that is learnt and measured, several at once in processes of their own."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.drafters import learning, measuring
from benchmarks.drafters.plan import FREE, Learner, Plan
from otspec.reporting.console import console


def run(plan: Plan, out: Path, device: str, jobs: int, corpus: Path | None) -> None:
    """Do what the folder does not hold yet: texts and draft models to begin with, then all that depends on these."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=learning.as_worker) as pool:
        submit = partial(_submit, pool)
        first = [submit(f"texts {seed}", learning.write, plan, seed, out, device) for seed in range(plan.seeds)]
        first += [submit(one, learning.begin, one, plan, out, device, corpus) for one in measuring.beginnings(plan)]
        _finish(first)
        later = [submit(f"{one.name} {seed}", _both, one, seed, plan, out, device) for one, seed in plan.jobs()]
        later += [
            submit(f"{method} {seed}", measuring.measure_free, method, seed, plan, out, device)
            for method in FREE
            for seed in range(plan.seeds)
        ]
        _finish(later)


def _both(learner: Learner, seed: int, plan: Plan, out: Path, device: str) -> None:
    learning.learn(learner, seed, plan, out, device)
    measuring.measure(learner, seed, plan, out, device)


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
        told = f"{job.exception()!r}" if job.exception() else job.result()
        console.print(f"{number}/{len(jobs)} {told}", highlight=False, markup=False)
    if failed is not None:
        raise failed
