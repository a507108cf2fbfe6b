import os
import subprocess
import sys

import numpy as np
import numpy.typing as npt
import pytest

import otspec
from otspec import IID, Problem, ProblemError
from tests.verification.test_one import model_laws


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_batch_agrees_with_single_solves(dtype: npt.DTypeLike) -> None:
    pairs = [model_laws(3000, seed, top_k=[None, 100][seed % 2]) for seed in range(6)]
    P, Q = (np.array(laws, dtype=dtype) for laws in zip(*pairs, strict=True))
    batch = otspec.solve_batch(P, Q, 4)
    assert len(batch) == 6
    assert np.abs(batch.gap).max() <= 1e-12
    for b in range(6):
        plan = otspec.solve(Problem(P[b], IID(Q[b], 4))).plan
        assert plan is not None
        assert batch.acceptance[b] == pytest.approx(plan.acceptance, abs=1e-13)
        mine = batch.plan(b)
        assert mine.deviation <= 1e-12
        assert abs(mine.gap) <= 1e-12
        np.testing.assert_allclose(mine.proposal, batch.proposal[b], atol=0)
        drafts = mine.problem.scheme.sample(np.random.default_rng(b))
        np.testing.assert_allclose(mine.conditional(drafts), plan.conditional(drafts), atol=1e-12)


def test_batch_names_the_wrong_row() -> None:
    P = np.array([[0.5, 0.5], [0.5, 0.4]])
    with pytest.raises(ProblemError, match=r"P\[1\] sums to 0.9"):
        otspec.solve_batch(P, P[[0, 0]], 2)
    with pytest.raises(ProblemError, match="one shape"):
        otspec.solve_batch(P, P[:1], 2)


def test_empty_batch() -> None:
    batch = otspec.solve_batch(np.empty((0, 5)), np.empty((0, 5)), 2)
    assert len(batch) == 0
    assert batch.proposal.shape == (0, 5)


FORKS = """
import ctypes
import os
import sys
import numba
import numpy as np
import otspec

P, Q = np.random.default_rng(0).dirichlet(np.ones(8), size=(2, 5))
here = otspec.solve_batch(P, Q, 2)
layer = numba.threading_layer()
child = os.fork()
if child == 0:
    there = otspec.solve_batch(P, Q, 2)
    os._exit(0 if np.array_equal(here.proposal, there.proposal) else 3)
threads = ctypes.CDLL("libgomp.so.1").omp_get_max_threads() if layer == "omp" and sys.platform == "linux" else 1
print(layer, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), numba.get_num_threads(), threads)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_process_solves_batches_too_and_openmp_keeps_its_number_of_threads() -> None:
    environment = {**os.environ, "NUMBA_NUM_THREADS": "3", "OMP_NUM_THREADS": "1"}
    ran = subprocess.run([sys.executable, "-c", FORKS], capture_output=True, text=True, check=True, env=environment)
    _, child, own, others = ran.stdout.split()
    assert child == "0", ran.stdout + ran.stderr
    assert (own, others) == ("3", "1")


CROWD = """
from concurrent.futures import ThreadPoolExecutor
import numba
import numpy as np
import otspec

P, Q = np.random.default_rng(0).dirichlet(np.ones(2000), size=(2, 40))
with ThreadPoolExecutor(4) as crowd:
    batches = list(crowd.map(lambda _: otspec.solve_batch(P, Q, 2), range(24)))
print(numba.threading_layer(), all(np.array_equal(one.acceptance, batches[0].acceptance) for one in batches))
"""


def test_several_threads_solve_batches_on_numbas_own_layer() -> None:
    environment = {**os.environ, "NUMBA_THREADING_LAYER": "workqueue", "NUMBA_NUM_THREADS": "2"}
    ran = subprocess.run([sys.executable, "-c", CROWD], capture_output=True, text=True, env=environment)
    assert ran.stdout.split() == ["workqueue", "True"], ran.stderr


def test_a_batch_is_a_sequence_of_plans_and_samples() -> None:
    P, Q = np.random.default_rng(1).dirichlet(np.ones(6), size=(2, 3))
    batch = otspec.solve_batch(P, Q, 2)
    drafts = np.stack([IID(q, 2).sample(seed) for seed, q in enumerate(Q)])
    for b, plan in enumerate(batch):
        assert plan.acceptance == batch[b].acceptance == pytest.approx(batch.acceptance[b], abs=1e-13)
    assert batch[-1].acceptance == batch[2].acceptance
    assert b == 2
    rng = np.random.default_rng(3)
    assert batch.sample(drafts, np.random.default_rng(3)).tolist() == [
        batch[b].sample(drafts[b], rng) for b in range(3)
    ]
    assert batch.sample(drafts, 3).shape == (3,)
    for wrong in (3, -4):
        with pytest.raises(IndexError, match=f"position {wrong} of a batch of 3"):
            batch[wrong]
    with pytest.raises(ProblemError, match=r"drafts have shape \(2, 2\); a batch of 3 positions needs \(3, 2\)"):
        batch.sample(drafts[:2], 3)
