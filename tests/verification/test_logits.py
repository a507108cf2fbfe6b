import math
from typing import Any

import numpy as np
import pytest

import otspec
from otspec import IID, Problem, ProblemError
from tests.bad_calls import check_bad_calls
from tests.each import each

SETTINGS: tuple[dict[str, Any], ...] = (
    {},
    {"temperature": 0.7},
    {"temperature": 0},
    {"top_k": 5},
    {"top_p": 0.8, "draft_temperature": 1.4},
    {"top_k": 6, "top_p": 0.9, "target_top_k": 7, "target_top_p": 0.95},
)


def logits_of(seed: int, vocab: int = 12) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    target = 2 * rng.standard_normal(vocab)
    return target, target + rng.standard_normal(vocab)


@each(settings=SETTINGS, dtype=(np.float64, np.float32, np.float16, list), seed=range(5))
def test_verifies_the_problem_of_the_same_logits(settings: dict[str, Any], dtype: Any, seed: int) -> None:
    target, draft = (values.tolist() if dtype is list else values.astype(dtype) for values in logits_of(seed))
    problem = Problem.from_logits(target, draft, 3, **settings)
    assert isinstance(problem.scheme, IID)
    for index, drafts in enumerate(problem.scheme.sample(seed, 20)):
        given = otspec.verify_logits(target, draft, drafts, index, **settings)
        assert given == otspec.verify(problem.p, problem.scheme.q, drafts, index)
        scored = otspec.verify_logits(target, draft, drafts, index, logprobs=True, **settings)
        assert scored[:2] == given
        assert scored.logprob == pytest.approx(math.log(problem.p[given.token]), rel=1e-14, abs=1e-15)


def test_a_law_of_half_precision_is_refused_where_its_logits_are_read() -> None:
    """Wide logits over many tokens: their softmax in float16 is no law."""
    target, draft = (logits.astype(np.float16) for logits in logits_of(1, 20_000))
    weights = np.exp(target - target.max())
    law = weights / weights.sum(dtype=np.float16)
    with pytest.raises(ProblemError, match="In half precision"):
        otspec.verify(law, law, [0], 0)
    problem = Problem.from_logits(target, draft, 2, top_k=50)
    for index, drafts in enumerate(problem.scheme.sample(0, 20)):
        found = otspec.verify_logits(target, draft, drafts, index, top_k=50)
        assert found == otspec.verify(problem.p, problem.scheme.q, drafts, index)  # type: ignore[attr-defined]


def test_torch_logits_of_sixteen_bits() -> None:
    torch = pytest.importorskip("torch")
    target, draft = (torch.tensor(logits, dtype=torch.bfloat16) for logits in logits_of(2))
    problem = Problem.from_logits(target, draft, 2)
    assert isinstance(problem.scheme, IID)
    given = otspec.verify_logits(target, draft, torch.tensor([3, 4]), 7)
    assert given == otspec.verify(problem.p, problem.scheme.q, [3, 4], 7)


@pytest.mark.parametrize(
    ("arguments", "settings", "message"),
    [
        (([0.0, np.nan], [0.0, 0.0], [0]), {}, r"target_logits\[1\] is nan"),
        (([0.0, 0.0], [0.0, np.inf], [0]), {}, r"draft_logits\[1\] is inf"),
        (([0.0, 0.0], [0.0], [0]), {}, "both need one shape"),
        (([0.0, 0.0], [0.0, 1.0], [0]), {"top_k": 1}, "draft probability is 0"),
        (([0.0, 0.0], [0.0, 1.0], [0]), {"temperature": 0}, "draft probability is 0"),
        (([0.0, 0.0], [0.0, 1.0], [0]), {"temperature": -1}, "temperature is -1"),
    ],
)
def test_refuses_what_is_no_position(arguments: Any, settings: Any, message: str) -> None:
    target, draft, drafts = arguments
    with pytest.raises(ProblemError, match=message):
        otspec.verify_logits(target, draft, drafts, 0, **settings)


def test_bad_calls_end_in_a_sentence() -> None:
    good: dict[str, list[Any]] = {
        "target_logits": [[0.0, 1.0, 2.0]],
        "draft_logits": [[2.0, 1.0, 0.0]],
        "drafts": [[0, 1], [2]],
        "rng": [0],
        "temperature": [1.0, 0.5],
        "top_k": [None, 2],
        "top_p": [None, 0.9],
        "draft_temperature": [None, 2.0],
    }
    check_bad_calls(otspec.verify_logits, good, calls=600, seed=0)
