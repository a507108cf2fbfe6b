import numpy as np
import numpy.typing as npt
import pytest

import otspec
from otspec import IID, Problem, ProblemError, Verification
from tests.each import each
from tests.verification.catalogue import follows

Floats = npt.NDArray[np.float64]


def model_laws(vocab: int, seed: int = 0, top_k: int | None = None) -> tuple[Floats, Floats]:
    rng = np.random.default_rng([seed, vocab])
    logits = 1.5 * rng.laplace(size=vocab)
    problem = Problem.from_logits(logits, logits + rng.standard_normal(vocab), 1, top_k=top_k)
    assert isinstance(problem.scheme, IID)
    return problem.p, problem.scheme.q


@each(
    case=((8, 3, 4, np.float32), (5000, 4, None, np.float64), (5000, 4, 50, np.float64), (5000, 40, None, np.float32))
)
def test_verify_follows_the_conditional_law_of_the_plan(case: tuple[int, int, int | None, npt.DTypeLike]) -> None:
    """Read as float32 by the law that it then is; and what is said to be accepted is the output."""
    vocab, n, top_k, dtype = case
    rng = np.random.default_rng(5)
    p, q = (law.astype(dtype) for law in model_laws(vocab, top_k=top_k))
    problem = Problem(p, IID(q, n))
    plan = otspec.solve(problem).plan
    assert plan is not None
    for drafts in problem.scheme.sample(rng, 2):
        found = [otspec.verify(p, q, drafts, rng) for _ in range(2000)]
        assert follows(np.bincount([one.token for one in found], minlength=vocab), plan.conditional(drafts))
        assert all(one.draft < 0 or drafts[one.draft] == one.token for one in found)


def test_nothing_can_be_accepted_and_everything_where_the_laws_agree() -> None:
    assert otspec.verify([0.0, 1.0], [1.0, 0.0], [0, 0], 0) == Verification(token=1, draft=-1)
    p, _ = model_laws(3000)
    for drafts in IID(p, 3).sample(0, 50):
        assert otspec.verify(p, p, drafts, 0).draft >= 0
    assert otspec.verify([1.0], [1.0], [0, 0], 0).token == 0


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
