"""One position, of laws and of logits, and batches of positions."""

import math
from typing import Any

import numpy as np
import pytest

import otspec
from otspec import IID, Problem, ProblemError, Verification
from tests.each import each
from tests.laws import Kind, model, unreachable
from tests.processes import printed
from tests.refusals import Refused, check_refused
from tests.verification.catalogue import follows


@each(case=((8, 3, model, "f4"), (5000, 4, model, "f8"), (5000, 4, unreachable, "f8"), (5000, 40, model, "f4")))
def test_verify_follows_the_conditional_law_of_the_plan(case: tuple[int, int, Kind, str]) -> None:
    """Read as float32 by the law that it then is; and what is said to be accepted is the output."""
    vocab, n, kind, dtype = case
    rng = np.random.default_rng(5)
    p, q = (law.astype(dtype) for law in kind(rng, vocab))
    problem = Problem(p, IID(q, n))
    plan = otspec.solve(problem).plan
    for drafts in problem.scheme.sample(rng, 2):
        found = [otspec.verify(p, q, drafts, rng) for _ in range(1000)]
        assert follows(np.bincount([one.token for one in found], minlength=vocab), plan.conditional(drafts))
        assert all(one.draft < 0 or drafts[one.draft] == one.token for one in found)


def test_nothing_can_be_accepted_and_everything_where_the_laws_agree() -> None:
    assert otspec.verify([0.0, 1.0], [1.0, 0.0], [0, 0], 0) == Verification(token=1, draft=-1)
    p, _ = model(np.random.default_rng(0), 3000)
    for drafts in IID(p, 3).sample(0, 50):
        assert otspec.verify(p, p, drafts, 0).draft >= 0
    assert otspec.verify([1.0], [1.0], [0, 0], 0).token == 0


EVEN, BATCH = [0.5, 0.5], np.array([[0.5, 0.5], [0.5, 0.4]])
WRONG: list[Refused] = [
    (lambda: otspec.verify([0.5, np.nan], EVEN, [0], 0), r"p\[1\] is nan"),
    (lambda: otspec.verify(EVEN, [1.0], [0], 0), "both need one shape"),
    (lambda: otspec.verify(EVEN, [1.0, 0.0], [0, 1], 0), "draft probability is 0"),
    (lambda: otspec.verify_logits([0.0, np.nan], [0.0, 0.0], [0], 0), r"target_logits\[1\] is nan"),
    (lambda: otspec.verify_logits([0.0, 0.0], [0.0, np.inf], [0], 0), r"draft_logits\[1\] is inf"),
    (lambda: otspec.verify_logits([0.0, 0.0], [0.0, 1.0], [0], 0, temperature=-1), "temperature is -1"),
    (lambda: otspec.solve_batch(BATCH, BATCH[[0, 0]], 2), r"P\[1\] sums to 0.9"),
    (lambda: otspec.solve_batch(BATCH, BATCH[:1], 2), "one shape"),
]


def test_what_is_wrong_is_named() -> None:
    check_refused(WRONG)


def test_a_draft_that_neither_law_has_room_for_is_not_put_out() -> None:
    # That both drafts are token 1 has probability 1e-400: g is 0 there, as p is, and whether 0 >= 0 decides.
    for seed in range(20):
        assert otspec.verify([1.0, 0.0], [1.0, 1e-200], [1, 1], seed) == (0, -1)


SETTINGS: tuple[dict[str, Any], ...] = (
    *({}, {"temperature": 0.7}, {"temperature": 0}, {"top_k": 5}, {"top_p": 0.8, "draft_temperature": 1.4}),
    {"top_k": 6, "top_p": 0.9, "target_top_k": 7, "target_top_p": 0.95},
)


@each(settings=SETTINGS, dtype=(np.float64, np.float32, np.float16, list), seed=range(5))
def test_verifies_the_problem_of_the_same_logits(settings: dict[str, Any], dtype: Any, seed: int) -> None:
    made = 2 * np.random.default_rng(seed).standard_normal((2, 12))
    target, draft = made.tolist() if dtype is list else made.astype(dtype)
    problem = Problem.from_logits(target, draft, 3, **settings)
    assert isinstance(problem.scheme, IID)
    for index, drafts in enumerate(problem.scheme.sample(seed, 20)):
        inputs = otspec.verify_logits(target, draft, drafts, index, **settings)
        assert inputs == otspec.verify(problem.p, problem.scheme.q, drafts, index)
        scored = otspec.verify_logits(target, draft, drafts, index, logprobs=True, **settings)
        assert scored[:2] == inputs
        assert scored.logprob == pytest.approx(math.log(problem.p[inputs.token]), rel=1e-14, abs=1e-15)


@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_batch_agrees_with_single_solves(dtype: str) -> None:
    pairs = [(model, unreachable)[seed % 2](np.random.default_rng(seed), 3000) for seed in range(6)]
    P, Q = (np.array(rows, dtype=dtype) for rows in zip(*pairs, strict=True))
    batch = otspec.solve_batch(P, Q, 4)
    assert len(batch) == 6
    assert np.abs(batch.gap).max() <= 1e-12
    for b in range(6):
        plan = otspec.solve(Problem(P[b], IID(Q[b], 4))).plan
        assert batch.acceptance[b] == pytest.approx(plan.acceptance, abs=1e-13)
        mine = batch.plan(b)
        assert mine.deviation <= 1e-12
        assert abs(mine.gap) <= 1e-12
        np.testing.assert_allclose(mine.proposal, batch.proposal[b], atol=0)
        drafts = mine.problem.scheme.sample(np.random.default_rng(b))
        np.testing.assert_allclose(mine.conditional(drafts), plan.conditional(drafts), atol=1e-12)
    assert otspec.solve_batch(P[:0], Q[:0], 2).proposal.shape == (0, 3000)


THREADS = """
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
import numpy as np
import otspec

P, Q = np.random.default_rng(0).dirichlet(np.ones(2000), size=(2, 40))
alone = [otspec.solve(otspec.Problem(p, otspec.IID(q, 2))).plan.acceptance for p, q in zip(P, Q)]
with ThreadPoolExecutor(4) as crowd:
    batches = list(crowd.map(lambda _: otspec.solve_batch(P, Q, 2), range(24)))
print(all(np.allclose(one.acceptance, alone, atol=1e-13, rtol=0) for one in batches))
time.sleep(0.2)  # until the threads wait for work, as those of the child would seem to
if hasattr(os, "fork"):
    child = os.fork()
    if child == 0:
        signal.alarm(30)  # rather than wait for threads that did not come along
        there = otspec.solve_batch(P, Q, 2)
        os._exit(0 if np.array_equal(there.acceptance, batches[0].acceptance) else 3)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0)
"""


def test_threads_and_a_forked_process_solve_batches_at_once() -> None:
    assert set(printed(THREADS, NUMBA_NUM_THREADS="3").split()) == {"True"}


def test_a_batch_is_a_sequence_of_plans_and_samples() -> None:
    P, Q = np.random.default_rng(1).dirichlet(np.ones(6), size=(2, 3))
    batch = otspec.solve_batch(P, Q, 2)
    drafts = np.stack([IID(q, 2).sample(seed) for seed, q in enumerate(Q)])
    for b, plan in enumerate(batch):
        assert plan.acceptance == batch[b].acceptance == pytest.approx(batch.acceptance[b], abs=1e-13)
    assert (batch[-1].acceptance, b) == (batch[2].acceptance, 2)
    rng = np.random.default_rng(3)
    assert batch.sample(drafts, np.random.default_rng(3)).tolist() == [
        batch[b].sample(drafts[b], rng) for b in range(3)
    ]
    assert batch.sample(drafts, 3).tolist() == batch.sample(drafts, np.random.default_rng((3, 1))).tolist()
    for wrong in (3, -4):
        with pytest.raises(IndexError, match=f"position {wrong} of a batch of 3"):
            batch[wrong]
    with pytest.raises(ProblemError, match=r"drafts have shape \(2, 2\); a batch of 3 positions needs \(3, 2\)"):
        batch.sample(drafts[:2], 3)
