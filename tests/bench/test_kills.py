"""Real clusters whose processes are killed in the middle: the rows of an undisturbed run, none lost and none doubled.

Each takes a minute, so they run where they are asked for: pytest --slow tests/bench/test_kills.py.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from otspec.bench.records import KEY, read_lines
from otspec.bench.schema import SCHEMAS
from tests.bench.clusters import CLUSTERS, QUIET, Cluster

pytest.importorskip("pyarrow")
pytest.importorskip("joblib")

CELLS = ("--k", "4,5,6,7,8,9", "--n", "2", "--solver", "interval,max_flow", "--positions", "4", "--data", "p.npz")
"""Twelve cells, each of which takes a worker some seconds: it starts a process that measures."""
ROWS = 6 * 2 * 4
PATIENCE_S = 240.0
SLOW_START_S = 60.0


def bench(*words: str) -> list[str]:
    return [sys.executable, "-m", "otspec", *words]


def rows(folder: Path) -> list[str]:
    """What was measured, without times."""
    records, _ = read_lines(folder / "results.jsonl", SCHEMAS["solvers"])
    return sorted(json.dumps([one.get(name) for name in (*KEY, "status", "acceptance")]) for one in records)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with positions, and what local processes leave of them."""
    here = tmp_path_factory.mktemp("kills")
    target = np.random.default_rng(0).normal(scale=2, size=(4, 50))
    np.savez(here / "p.npz", target_logits=target, draft_logits=target + 0.5)
    subprocess.run(bench("bench", *CELLS, "--jobs", "2", "--out", "local"), cwd=here, check=True, capture_output=True)
    assert len(set(rows(here / "local"))) == len(rows(here / "local")) == ROWS
    return here


@pytest.fixture(params=list(CLUSTERS))
def make(request: pytest.FixtureRequest) -> Iterator[Callable[[], Cluster]]:
    """Makes a cluster, which is stopped in the end."""
    pytest.importorskip({"dask": "distributed", "ray": "ray"}[request.param])
    made: list[Cluster] = []

    def cluster() -> Cluster:
        made.append(CLUSTERS[request.param]())
        return made[-1]

    yield cluster
    for one in made:
        one.stop()


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["worker", "scheduler", "driver"])
def test_a_sweep_survives_a_kill(undisturbed: Path, make: Callable[[], Cluster], victim: str) -> None:
    cluster = make()
    out = f"{cluster.name}_{victim}"
    log = undisturbed / out / "results.jsonl"
    command = bench("bench", *CELLS, "--backend", cluster.name, "--out", out)

    def on(cluster: Cluster) -> list[str]:
        return [*command, "--address", cluster.address]

    # "--jobs" is of the identity: two, as the undisturbed run has.
    command += ["--jobs", "2"]
    errors = undisturbed / f"{out}.err"
    with errors.open("w") as stderr:
        driver = subprocess.Popen(
            on(cluster), cwd=undisturbed, env=os.environ | QUIET, stdout=subprocess.DEVNULL, stderr=stderr
        )
        deadline = time.monotonic() + PATIENCE_S
        while not log.exists() or len(rows(undisturbed / out)) < 8:
            assert driver.poll() is None, errors.read_text()
            assert time.monotonic() < deadline, errors.read_text()
            time.sleep(0.1)
        process = driver.pid if victim == "driver" else getattr(cluster, victim)()
        os.kill(process, signal.SIGKILL)
        status = driver.wait(PATIENCE_S)
    told = errors.read_text()
    held = rows(undisturbed / out)
    shutil.copytree(undisturbed / out, undisturbed / f"{out}_before")
    if victim == "worker":
        assert (status, len(held)) == (0, ROWS), told
    else:
        assert 8 <= len(held) < ROWS
        assert status != 0
    if victim == "scheduler" and cluster.name == "dask":
        assert status == 2
        assert "error: dask has ended" in told
        assert "the same command goes on" in told
        assert 'File "' not in told.partition("error: dask")[2]
    if victim == "scheduler":
        cluster.stop()
        cluster = make()
    subprocess.run(on(cluster), cwd=undisturbed, env=os.environ | QUIET, check=True, capture_output=True)
    merge = bench("merge", f"{out}_before", out, "--out", f"{out}_merged")
    subprocess.run(merge, cwd=undisturbed, check=True, capture_output=True)
    for folder in (out, f"{out}_merged"):
        assert rows(undisturbed / folder) == rows(undisturbed / "local")
