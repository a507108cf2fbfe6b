from __future__ import annotations

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
