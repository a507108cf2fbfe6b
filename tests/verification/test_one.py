import math

import numpy as np
import numpy.typing as npt
import pytest

import otspec
from otspec import IID, Problem, ProblemError, Verification

Floats = npt.NDArray[np.float64]


def model_laws(vocab: int, seed: int = 0, top_k: int | None = None) -> tuple[Floats, Floats]:
    rng = np.random.default_rng([seed, vocab])
    logits = 1.5 * rng.laplace(size=vocab)
    problem = Problem.from_logits(logits, logits + rng.standard_normal(vocab), 1, top_k=top_k)
    assert isinstance(problem.scheme, IID)
    return problem.p, problem.scheme.q


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("top_k", [None, 4])
def test_verify_puts_out_p_and_accepts_as_often_as_the_plan(top_k: int | None, dtype: npt.DTypeLike) -> None:
    rng = np.random.default_rng(3)
    trials = 20_000
    p, q = model_laws(8, seed=2, top_k=top_k)
    scheme = IID(q, 3)
    plan = otspec.solve(Problem(p, scheme)).plan
    assert plan is not None
    counts, accepted = np.zeros(8), 0
    for drafts in scheme.sample(rng, trials):
        verdict = otspec.verify(p.astype(dtype), q.astype(dtype), drafts, rng)
        counts[verdict.token] += 1
        if verdict.draft >= 0:
            accepted += 1
            assert drafts[verdict.draft] == verdict.token
    noise = 5 * 0.5 / math.sqrt(trials)
    np.testing.assert_allclose(counts / trials, p, atol=noise)
    assert accepted / trials == pytest.approx(plan.acceptance, abs=noise)


@pytest.mark.parametrize(("vocab", "n", "top_k"), [(5000, 4, None), (5000, 4, 50), (5000, 40, None), (1, 2, None)])
def test_verify_follows_the_conditional_law(vocab: int, n: int, top_k: int | None) -> None:
    rng = np.random.default_rng(5)
    trials = 2000
    p, q = model_laws(vocab, top_k=top_k)
    problem = Problem(p, IID(q, n))
    plan = otspec.solve(problem).plan
    assert plan is not None
    for drafts in problem.scheme.sample(rng, 2):
        law = plan.conditional(drafts)
        counts = np.bincount([otspec.verify(p, q, drafts, rng).token for _ in range(trials)], minlength=vocab)
        np.testing.assert_allclose(counts / trials, law, atol=5 * 0.5 / math.sqrt(trials))


def test_verify_when_nothing_can_be_accepted() -> None:
    rng = np.random.default_rng(0)
    p, q = np.array([0.0, 1.0]), np.array([1.0, 0.0])
    assert otspec.verify(p, q, [0, 0], rng) == Verification(token=1, draft=-1)


def test_verify_accepts_everything_when_the_laws_agree() -> None:
    rng = np.random.default_rng(0)
    p, _ = model_laws(3000)
    for drafts in IID(p, 3).sample(rng, 50):
        assert otspec.verify(p, p, drafts, rng).draft >= 0


@pytest.mark.parametrize(
    ("p", "q", "drafts", "message"),
    [
        ([0.5, 0.4], [0.5, 0.5], [0], "p sums to 0.9"),
        ([0.5, 0.5], [1.5, -0.5], [0], "q\\[1\\] is -0.5"),
        ([0.5, np.nan], [0.5, 0.5], [0], "p\\[1\\] is nan"),
        ([0.5, 0.5], [1.0], [0], "both need one shape"),
        ([0.5, 0.5], [1.0, 0.0], [0, 1], "draft probability is 0"),
        ([0.5, 0.5], [0.5, 0.5], [2], "token ids run from 0 to 1"),
        ([0.5, 0.5], [0.5, 0.5], [0.5], "integers"),
        ([0.5, 0.5], [0.5, 0.5], np.empty(0, dtype=int), "at least 1 token"),
    ],
)
def test_verify_names_what_is_wrong(p: object, q: object, drafts: object, message: str) -> None:
    with pytest.raises(ProblemError, match=message):
        otspec.verify(p, q, drafts, np.random.default_rng(0))


def test_a_draft_that_neither_law_has_room_for_is_not_put_out() -> None:
    # That both drafts are token 1 has probability 1e-400: g is 0 there, as p is, and whether 0 >= 0 decides.
    for seed in range(20):
        assert otspec.verify([1.0, 0.0], [1.0, 1e-200], [1, 1], seed) == (0, -1)
