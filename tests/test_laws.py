"""Laws over the vocabulary, and problems: what is taken for one, what is made of logits, and what is drawn from one."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import chisquare

from otspec import IID, Problem
from otspec.laws import as_drafts, as_law, as_laws, distinct, draw, draw_from_cumulative, scale_laws
from otspec.logits import law_from_logits
from otspec.tolerances import MASS_TOL
from tests.each import each
from tests.instances import P4, Q4, VARIED, Instance
from tests.oracles import Floats, hit_function, mass_function, members, optimal_acceptance
from tests.refusals import Refused, check_refused


@each(drift=[0.9 * MASS_TOL, -0.9 * MASS_TOL])
def test_rounding_is_divided_out(drift: float) -> None:
    drifted = np.array([[0.25, 0.75], [0.5, 0.5]]) * np.array([[1 + drift], [1.0]])
    assert_allclose(as_law("p", drifted[0]), [0.25, 0.75], rtol=1e-15)
    assert as_laws("p", drifted) is not drifted
    assert scale_laws("p", drifted) is drifted
    assert_allclose(drifted, [[0.25, 0.75], [0.5, 0.5]], rtol=1e-15)
    logits = np.random.default_rng(0).normal(scale=3, size=150_000).astype(np.float32)
    law = as_law("p", np.exp(logits) / np.exp(logits).sum())
    assert law.dtype == np.float64
    assert law.sum() == pytest.approx(1.0, abs=1e-13)  # a float64 sum of 150 000 terms


def test_a_law_is_a_read_only_copy_with_the_smallest_probabilities() -> None:
    values = np.array([0.5, 0.5])
    law = as_law("p", values)
    values[0] = 0.0
    assert law[0] == 0.5
    with pytest.raises(ValueError, match="read-only"):
        law[0] = 1.0
    assert as_law("p", [1.0, 1e-300])[1] == 1e-300


@each(shape=[(3,), (5, 3), (2, 5, 3)])
def test_drafts_keep_their_leading_axes(shape: tuple[int, ...]) -> None:
    drafts = as_drafts(np.zeros(shape, dtype=np.int32), 3, 4)
    assert drafts.shape == shape
    assert drafts.dtype == np.int64


def test_frequencies_of_draws_follow_the_law() -> None:
    law, rng = np.array([0.0, 0.5, 0.0, 0.3, 0.2, 0.0]), np.random.default_rng(0)
    counts = np.bincount(draw(law, rng, 20_000), minlength=6)
    assert_array_equal(counts[law == 0], 0)
    # The seed is fixed, so this is no gamble: a right sampler passes, a wrong one has a p-value near 0.
    assert chisquare(counts[law > 0], 20_000 * law[law > 0]).pvalue > 1e-3
    for size, shape in ((None, ()), (3, (3,)), ((3, 2), (3, 2))):
        assert draw(np.ones(1), rng, size).shape == shape


@each(position=[0.0, np.nextafter(1.0, 0.0)])
def test_the_ends_of_the_unit_interval_hit_tokens_with_mass(position: float) -> None:
    class Fixed(np.random.Generator):
        def random(self, *_: Any, **__: Any) -> Any:
            return position

    # Ten times 0.1 is less than 1 in floating point, and the zeros at both ends must stay undrawn.
    law = np.concatenate(([0.0], np.full(10, 0.1), [0.0]))
    token = draw_from_cumulative(np.cumsum(law), Fixed(np.random.PCG64(0)))
    assert int(token) == (1 if position == 0 else 10)


LAW = np.array([0.1, 0.4, 0.2, 0.3])
LOGITS = np.log(LAW)
TWO = np.array([0, 4 / 7, 0, 3 / 7])
OF_LOGITS: dict[str, tuple[Any, dict[str, Any], Any]] = {
    "softmax": (LOGITS, {}, LAW),
    "shifted": (LOGITS + 1000, {}, LAW),
    "cooler": (LOGITS, {"temperature": 0.5}, LAW**2 / (LAW**2).sum()),
    "greedy": (LOGITS, {"temperature": 0}, [0, 1, 0, 0]),
    "greedy at a tie": ([1.0, 2.0, 2.0], {"temperature": 0}, [0, 1, 0]),
    "all but greedy": ([1.0, 3.0, 2.0], {"temperature": 1e-310}, [0, 1, 0]),
    "top-k": (LOGITS, {"top_k": 2}, TWO),
    "top-k of more": (LOGITS, {"top_k": 9}, LAW),
    "top-k at a tie": (np.log([0.1, 0.1, 0.7, 0.1]), {"top_k": 3}, [1 / 9, 1 / 9, 7 / 9, 0]),
    "top-p after top-k": (LOGITS, {"top_k": 2, "top_p": 0.5}, [0, 1, 0, 0]),  # 4/7 of the mass, before it 0.4
    "masked": ([0.0, -np.inf, 0.0], {"top_k": 3}, [0.5, 0, 0.5]),
    "half precision": (np.array([0.0, 1.0], dtype=np.float16), {}, [1 / (1 + math.e), math.e / (1 + math.e)]),
    **{
        f"top-p {top_p}": (LOGITS, {"top_p": top_p}, np.where(np.argsort(np.argsort(-LAW)) < kept, LAW, 0))
        for top_p, kept in ((0.39, 1), (0.41, 2), (0.69, 2), (0.71, 3), (0.95, 4), (1.0, 4))
    },
}
"""Logits and settings, and the law or the weights that they give."""


@each(case=OF_LOGITS)
def test_the_law_of_logits(case: tuple[Any, dict[str, Any], Floats]) -> None:
    logits, settings, weights = case
    found = law_from_logits("logits", logits, **settings)
    assert_allclose(found, np.asarray(weights) / np.sum(weights), rtol=1e-12, atol=0)


def from_logits(logits: Any, **settings: Any) -> Callable[[], object]:
    return lambda: law_from_logits("logits", logits, **settings)


TOO_MUCH = P4 * (1 + 1.1 * MASS_TOL)
REFUSED: list[Refused] = [
    (lambda: as_law("p", []), r"p has shape \(0,\)"),
    (lambda: as_law("p", 0.5), r"p has shape \(\)"),
    (lambda: as_law("p", [0.5, np.nan, 0.5]), r"p\[1\] is nan"),
    (lambda: as_law("p", [1.5, -0.5]), r"p\[1\] is -0.5; .* from_logits"),
    (lambda: as_law("p", [0.5, 0.4871]), r"p sums to 0.9871 \(allowed: 1 \+/- 1e-05\). Top-k without"),
    (lambda: as_law("p", [0.5, 0.4901]), "In half precision"),
    (lambda: as_law("p", TOO_MUCH), "sums to"),
    (lambda: as_laws("p", [Q4, TOO_MUCH]), r"p\[1\] sums to"),
    (lambda: as_law("p", ["a", "b"]), "p is not an array of real numbers"),
    (lambda: as_drafts(1, 2, 4), r"shape \(\).*n = 2"),
    (lambda: as_drafts([0, 1, 2], 2, 4), r"shape \(3,\).*n = 2"),
    (lambda: as_drafts([0.0, 1.0], 2, 4), "float64; token ids are integers"),
    (lambda: as_drafts([True, False], 2, 4), "bool; token ids are integers"),
    (lambda: as_drafts([0, 4], 2, 4), "hold 4; token ids run from 0 to 3"),
    (lambda: as_drafts([-1, 4], 2, 4), "hold -1; token ids run from 0 to 3"),
    (from_logits([]), r"shape \(0,\)"),
    (from_logits([0.0, np.nan]), r"logits\[1\] is nan"),
    (from_logits([0.0, np.inf]), r"logits\[1\] is inf"),
    (from_logits([-np.inf, -np.inf]), "masks every token"),
    (from_logits([1j]), "complex"),
    (from_logits(np.ma.masked_less([0.0, 1.0], 0.5)), "masked; fill them"),
    (from_logits([0.0], temperature=-1.0), "temperature is -1"),
    (from_logits([0.0], temperature=np.nan), "temperature is nan"),
    (from_logits([0.0], temperature=10**400), "temperature is 1000"),
    (from_logits([0.0], top_p=[0.5]), r"top_p is \[0.5\]"),
    (from_logits([0.0], top_p=1.5), "top_p is 1.5"),
    (from_logits([0.0], top_p=0.0), "top_p is 0"),
    (from_logits([0.0], top_k=1.5), "top_k is 1.5"),
    (lambda: Problem(P4, IID([0.5, 0.25, 0.25], 2)), "p has 4 tokens and the scheme 3"),
    (lambda: Problem(P4, Q4), "scheme is a ndarray; pass a draft scheme"),  # type: ignore[arg-type]
    (lambda: Problem.from_logits([0.0], [np.nan], 1), r"draft_logits\[0\] is nan"),
]


def test_what_is_no_law_no_drafts_and_no_problem_is_refused_with_the_value_and_the_rule() -> None:
    check_refused(REFUSED)


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


@each(values=[[], [3], [[5, 1], [1, 5]], [2**63 - 1, 0, -(2**63)]])
def test_the_distinct_ones_are_those_that_numpy_finds(values: list[Any]) -> None:
    integers = np.array(values, dtype=np.int64)
    assert_array_equal(distinct(integers), np.unique(integers))


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
