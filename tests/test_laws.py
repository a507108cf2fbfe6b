from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import chisquare

from otspec import ProblemError
from otspec.laws import as_drafts, as_float64, as_law, draw, draw_from_cumulative, law_from_logits, sum_by
from otspec.tolerances import MASS_TOL
from tests.oracles import Floats


class TestAsLaw:
    @pytest.mark.parametrize(
        ("values", "message"),
        [
            ([], r"p has shape \(0,\)"),
            ([[0.5, 0.5]], r"p has shape \(1, 2\)"),
            (0.5, r"p has shape \(\)"),
            ([0.5, np.nan, 0.5], r"p\[1\] is nan"),
            ([0.5, 0.5, np.inf], r"p\[2\] is inf"),
            ([1.5, -0.5], r"p\[1\] is -0.5; .* from_logits"),
            ([0.5, 0.4871], r"p sums to 0.9871 \(allowed: 1 \+/- 1e-05\)"),
            (["a", "b"], "p is not an array of real numbers"),
        ],
    )
    def test_refuses_with_the_value_and_the_rule(self, values: Any, message: str) -> None:
        with pytest.raises(ProblemError, match=message):
            as_law("p", values)

    @pytest.mark.parametrize("drift", [0.9 * MASS_TOL, -0.9 * MASS_TOL])
    def test_divides_rounding_out(self, drift: float) -> None:
        law = as_law("p", np.array([0.25, 0.75]) * (1 + drift))
        assert_allclose(law, [0.25, 0.75], rtol=1e-15)

    def test_refuses_more_than_rounding(self) -> None:
        with pytest.raises(ProblemError, match="sums to"):
            as_law("p", np.array([0.25, 0.75]) * (1 + 1.1 * MASS_TOL))

    def test_takes_a_float32_softmax_of_a_large_vocabulary(self) -> None:
        logits = np.random.default_rng(0).normal(scale=3, size=150_000).astype(np.float32)
        softmax = np.exp(logits) / np.exp(logits).sum()
        law = as_law("p", softmax)
        assert law.dtype == np.float64
        assert law.sum() == pytest.approx(1.0, abs=1e-13)  # a float64 sum of 150 000 terms

    def test_result_is_a_read_only_copy(self) -> None:
        values = np.array([0.5, 0.5])
        law = as_law("p", values)
        values[0] = 0.0
        assert law[0] == 0.5
        with pytest.raises(ValueError, match="read-only"):
            law[0] = 1.0

    def test_keeps_the_smallest_probabilities(self) -> None:
        assert as_law("p", [1.0, 1e-300])[1] == 1e-300


def test_a_temperature_near_zero_is_greedy() -> None:
    assert_array_equal(law_from_logits("logits", [1.0, 3.0, 2.0], temperature=1e-310), [0, 1, 0])


def test_as_float64_takes_tensors_by_their_detach() -> None:
    class Tensor:
        """The four methods of a torch tensor that the crossing needs."""

        def detach(self) -> Tensor:
            return self

        def double(self) -> Tensor:
            return self

        def cpu(self) -> Tensor:
            return self

        def numpy(self) -> Floats:
            return np.array([0.5, 0.5])

    assert_array_equal(as_float64("p", Tensor()), [0.5, 0.5])


class TestAsDrafts:
    @pytest.mark.parametrize("shape", [(3,), (5, 3), (2, 5, 3)])
    def test_keeps_leading_axes(self, shape: tuple[int, ...]) -> None:
        drafts = as_drafts(np.zeros(shape, dtype=np.int32), 3, 4)
        assert drafts.shape == shape
        assert drafts.dtype == np.int64

    @pytest.mark.parametrize(
        ("drafts", "message"),
        [
            (1, r"shape \(\).*n = 2"),
            ([0, 1, 2], r"shape \(3,\).*n = 2"),
            ([0.0, 1.0], "float64; token ids are integers"),
            ([True, False], "bool; token ids are integers"),
            ([0, 4], "hold 4; token ids run from 0 to 3"),
            ([-1, 4], "hold -1; token ids run from 0 to 3"),
        ],
    )
    def test_refuses(self, drafts: Any, message: str) -> None:
        with pytest.raises(ProblemError, match=message):
            as_drafts(drafts, 2, 4)


def test_sum_by_adds_what_shares_an_index() -> None:
    assert_array_equal(sum_by(np.array([2, 0, 2]), np.array([1.0, 2.0, 4.0]), 4), [2.0, 0.0, 5.0, 0.0])


class TestDraw:
    def test_frequencies_follow_the_law(self) -> None:
        law = np.array([0.0, 0.5, 0.0, 0.3, 0.2, 0.0])
        counts = np.bincount(draw(law, np.random.default_rng(0), 20_000), minlength=6)
        assert_array_equal(counts[law == 0], 0)
        # The seed is fixed, so this is no gamble: a right sampler passes, a wrong one has a p-value near 0.
        assert chisquare(counts[law > 0], 20_000 * law[law > 0]).pvalue > 1e-3

    @pytest.mark.parametrize("position", [0.0, np.nextafter(1.0, 0.0)])
    def test_the_ends_of_the_unit_interval_hit_tokens_with_mass(self, position: float) -> None:
        class Fixed(np.random.Generator):
            def random(self, *_: Any, **__: Any) -> Any:
                return position

        # Ten times 0.1 is less than 1 in floating point, and the zeros at both ends must stay undrawn.
        law = np.concatenate(([0.0], np.full(10, 0.1), [0.0]))
        token = draw_from_cumulative(np.cumsum(law), Fixed(np.random.PCG64(0)))
        assert int(token) == (1 if position == 0 else 10)

    def test_shapes(self) -> None:
        rng = np.random.default_rng(0)
        assert draw(np.ones(1), rng).shape == ()
        assert draw(np.ones(1), rng, 3).shape == (3,)
        assert draw(np.ones(1), rng, (3, 2)).shape == (3, 2)


class TestLawFromLogits:
    LOGITS = np.log([0.1, 0.4, 0.2, 0.3])

    def law(self, **settings: Any) -> Floats:
        return law_from_logits("logits", self.LOGITS, **settings)

    def test_softmax(self) -> None:
        assert_allclose(self.law(), [0.1, 0.4, 0.2, 0.3], rtol=1e-14)

    def test_a_constant_shift_changes_nothing(self) -> None:
        assert_allclose(law_from_logits("logits", self.LOGITS + 1000), self.law(), rtol=1e-12)

    def test_temperature_divides_the_logits(self) -> None:
        squares = np.square([0.1, 0.4, 0.2, 0.3])
        assert_allclose(self.law(temperature=0.5), squares / squares.sum(), rtol=1e-14)

    def test_temperature_zero_is_greedy_and_takes_the_first_of_a_tie(self) -> None:
        assert_array_equal(self.law(temperature=0), [0, 1, 0, 0])
        assert_array_equal(law_from_logits("logits", [1.0, 2.0, 2.0], temperature=0), [0, 1, 0])

    def test_top_k_keeps_the_likeliest(self) -> None:
        assert_allclose(self.law(top_k=2), [0, 4 / 7, 0, 3 / 7], rtol=1e-14)
        assert_allclose(self.law(top_k=9), self.law(), rtol=1e-15)

    def test_top_k_keeps_the_lowest_ids_of_a_tie(self) -> None:
        assert_array_equal(law_from_logits("logits", np.zeros(4), top_k=3) > 0, [True, True, True, False])

    @pytest.mark.parametrize(("top_p", "kept"), [(0.39, 1), (0.41, 2), (0.69, 2), (0.71, 3), (0.95, 4), (1.0, 4)])
    def test_top_p_keeps_the_shortest_list_that_reaches_it(self, top_p: float, kept: int) -> None:
        law = self.law(top_p=top_p)
        expected = np.where(np.argsort(np.argsort(-self.LOGITS)) < kept, [0.1, 0.4, 0.2, 0.3], 0.0)
        assert_allclose(law, expected / expected.sum(), rtol=1e-14)

    def test_top_p_counts_the_mass_after_top_k(self) -> None:
        # After top_k = 2 the likeliest token has 4/7 = 0.571 of the mass, before it 0.4.
        assert_array_equal(self.law(top_k=2, top_p=0.5), [0, 1, 0, 0])

    def test_minus_infinity_masks_a_token(self) -> None:
        law = law_from_logits("logits", [0.0, -np.inf, 0.0], top_k=3)
        assert_array_equal(law, [0.5, 0.0, 0.5])

    def test_half_precision_logits_are_computed_in_double(self) -> None:
        law = law_from_logits("logits", np.array([0.0, 1.0], dtype=np.float16))
        assert_allclose(law, [1 / (1 + np.e), np.e / (1 + np.e)], rtol=1e-15)

    @pytest.mark.parametrize(
        ("logits", "settings", "message"),
        [
            ([], {}, r"shape \(0,\)"),
            ([[0.0]], {}, r"shape \(1, 1\)"),
            ([0.0, np.nan], {}, r"logits\[1\] is nan"),
            ([0.0, np.inf], {}, r"logits\[1\] is inf"),
            ([-np.inf, -np.inf], {}, "masks every token"),
            ([0.0], {"temperature": -1.0}, "temperature is -1"),
            ([0.0], {"temperature": np.inf}, "temperature is inf"),
            ([0.0], {"temperature": np.nan}, "temperature is nan"),
            ([0.0], {"temperature": 10**400}, "temperature is 1000"),
            ([0.0], {"temperature": "1"}, "temperature is '1'"),
            ([0.0], {"top_p": [0.5]}, "top_p is \\[0.5\\]"),
            ([0.0], {"top_k": 0}, "top_k is 0"),
            ([0.0], {"top_k": 1.5}, "top_k is 1.5"),
            ([1j], {}, "complex"),
            ([0.0], {"top_p": 0.0}, "top_p is 0"),
            ([0.0], {"top_p": 1.5}, "top_p is 1.5"),
        ],
    )
    def test_refuses(self, logits: Any, settings: dict[str, Any], message: str) -> None:
        with pytest.raises(ProblemError, match=message):
            law_from_logits("logits", logits, **settings)
