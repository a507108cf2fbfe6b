"""A user's solver in the working directory, run by the command as it is installed: a script in another folder."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from otspec.extras import installed

SCRIPT = """
import sys
from otspec.cli import main

if __name__ == "__main__":
    sys.exit(main())
"""
SOLVER = '''
from dataclasses import dataclass

from otspec.certificate import upper_bound
from otspec.plans import Match
from otspec.solver import Solution
from otspec.solvers.base import SolverBase


@dataclass(frozen=True)
class FromTarget(SolverBase):
    """Draw the output from p, and see whether it was drafted."""

    tol: float = 1e-9
    exact = False

    def __call__(self, problem):
        return Solution(Match(problem, problem.scheme.inclusion(), upper_bound(problem)), {})
'''


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A working directory with a solver and positions; the command's script is in a folder of its own."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "otspec").write_text(SCRIPT)
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "mine.py").write_text(SOLVER)
    logits = np.random.default_rng(0).normal(size=(2, 2, 8))
    np.savez(folder / "p.npz", target_logits=logits[0], draft_logits=logits[1])
    return folder


def otspec(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    root = str(Path(__file__).parents[2])
    return subprocess.run(
        [sys.executable, str(folder.parent / "bin" / "otspec"), *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": root},
    )


def test_it_is_solved_with_and_measured_and_measured_anew_after_an_edit(here: Path) -> None:
    done = otspec(here, "solve", "p.npz", "--solver", "mine:FromTarget")
    assert done.returncode == 0, done.stderr
    assert "2/2 solved" in done.stdout
    if not installed("pyarrow"):
        return
    arguments = ("bench", "--data", "p.npz", "--k", "4", "--n", "2", "--positions", "2", "--out", "r", "--solver")
    log = here / "r" / "results.jsonl"

    def measured() -> dict[tuple[str, int], float]:
        records = [json.loads(line) for line in log.read_text().splitlines()]
        return {(one["solver"], one["position"]): one["wall_s"] for one in records}

    done = otspec(here, *arguments, "mine:FromTarget,kseq")
    assert done.returncode == 0, done.stderr
    first = measured()
    assert len(first) == 4
    (here / "mine.py").write_text(SOLVER + "\n# faster now\n")
    done = otspec(here, *arguments, "mine:FromTarget,kseq")
    assert done.returncode == 0, done.stderr
    assert "2 records were measured with other code of their solvers: measured anew" in done.stdout
    second = measured()
    assert {key for key in first if first[key] != second[key]} == {("mine:FromTarget", 0), ("mine:FromTarget", 1)}
