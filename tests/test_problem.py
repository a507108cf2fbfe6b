from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from otspec import IID, Problem, ProblemError
from tests.each import each
from tests.instances import P4, Q4, VARIED, Instance
from tests.oracles import Floats, hit_function, mass_function, members, optimal_acceptance

WRONG: dict[str, tuple[Callable[[], object], str]] = {
    "two vocabularies": (lambda: Problem(P4, IID([0.5, 0.25, 0.25], 2)), "p has 4 tokens and the scheme 3"),
    "a law for a scheme": (lambda: Problem(P4, Q4), r"scheme is a ndarray; pass a draft scheme"),  # type: ignore[arg-type]
    "no law": (lambda: Problem(np.array([-1.0, 2.0]), IID([0.5, 0.5], 1)), r"p\[0\] is -1"),
    "no logits": (lambda: Problem.from_logits([0.0], [np.nan], 1), r"draft_logits\[0\] is nan"),
}


@each(case=WRONG)
def test_what_is_wrong_is_named(case: tuple[Callable[[], object], str]) -> None:
    with pytest.raises(ProblemError, match=case[1]):
        case[0]()


WHOLE, DRAFT = np.array([0.1, 0.4, 0.2, 0.3]), np.array([0.4, 0.3, 0.2, 0.1])
BEST, CUT, LIKELIEST = [0, 1, 0, 0], [0, 4 / 7, 0, 3 / 7], [1, 0, 0, 0]
SETTINGS: list[tuple[dict[str, Any], Any, Any]] = [
    ({}, WHOLE, DRAFT),
    ({"temperature": 0}, BEST, LIKELIEST),
    ({"temperature": 0, "draft_temperature": 1.0}, BEST, DRAFT),
    ({"draft_temperature": 0}, WHOLE, LIKELIEST),
    ({"top_k": 2}, WHOLE, [4 / 7, 3 / 7, 0, 0]),
    ({"top_p": 0.6}, WHOLE, [4 / 7, 3 / 7, 0, 0]),
    ({"target_top_k": 2}, CUT, DRAFT),
    ({"target_top_p": 0.6}, CUT, DRAFT),
]


@each(case=SETTINGS)
def test_settings_of_logits_act_on_the_model_that_they_name(case: tuple[dict[str, Any], Floats, Floats]) -> None:
    settings, p, q = case
    problem = Problem.from_logits(np.log(WHOLE), np.log(DRAFT), 3, **settings)
    assert isinstance(problem.scheme, IID)
    assert problem.n == 3
    assert_allclose(problem.p, p, rtol=1e-14, atol=0)
    assert_allclose(problem.scheme.q, q, rtol=1e-14, atol=0)


def test_laws_are_float64_and_masked_tokens_have_probability_zero() -> None:
    problem = Problem(P4.astype(np.float32), IID(Q4, 2))
    assert problem.p.dtype == np.float64
    assert problem.p.sum() == pytest.approx(1.0, abs=1e-15)
    assert (problem.n, problem.vocab) == (2, 4)
    problem = Problem.from_logits([0.0, 0.0, -np.inf], [-np.inf, 0.0, 0.0], 2)
    assert_array_equal(problem.p, [0.5, 0.5, 0.0])
    assert_array_equal(problem.scheme.reachable(), [1, 2])


@each(instance=VARIED)
def test_every_token_set_bounds_the_optimum_and_one_attains_it(instance: Instance) -> None:
    problem = instance.problem
    best = optimal_acceptance(problem)
    subsets = range(1 << problem.vocab)
    bounds = np.array([problem.bound(members(subset, problem.vocab)) for subset in subsets])
    outside = hit_function(problem.scheme)[::-1]  # the complement of H has code 2**V - 1 - H
    assert_allclose(bounds, outside + mass_function(problem.p), rtol=0, atol=1e-14)  # sums of at most 216 floats
    assert bounds.min() == pytest.approx(best, abs=1e-14)


@each(instance=VARIED)
def test_compact_problems_have_the_same_optimum_and_expand_to_the_same_law(instance: Instance) -> None:
    problem = instance.problem
    compact = problem.compact()
    assert_array_equal(compact.tokens, problem.scheme.reachable())
    assert (compact.problem.vocab, compact.problem.n) == (compact.tokens.size + 1, problem.n)
    assert optimal_acceptance(compact.problem) == pytest.approx(optimal_acceptance(problem), abs=1e-14)
    assert_allclose(compact.expand(compact.problem.p), problem.p, rtol=1e-15, atol=0)


def test_known_compact_problems() -> None:
    problem = Problem(np.array([0.1, 0.2, 0.3, 0.4]), IID(np.array([0.0, 0.75, 0.0, 0.25]), 2))
    compact = problem.compact()
    assert_array_equal(compact.tokens, [1, 3])
    assert_allclose(compact.problem.p, [0.2, 0.4, 0.4], rtol=1e-15)
    # The rest, 0.5, goes to tokens 0 and 2 as p has it, 1 : 3.
    assert_allclose(compact.expand(np.array([0.3, 0.2, 0.5])), [0.125, 0.3, 0.375, 0.2], rtol=1e-15)
    whole = Problem(P4, IID(Q4, 2)).compact()
    assert whole.problem.p[-1] == 0
    assert_array_equal(whole.expand(np.append(Q4, 0.0)), Q4)
