"""What a layer does with few rows of bfloat16 is what float64 gives, rounded once."""

import numpy as np
import pytest

from otspec.kernels.few_rows import Bits, Gains, add_and_normalise, exponential, gate, narrowed, normalise, turn
from otspec.laws import FloatArray

RNG = np.random.default_rng(0)
NONE = np.empty(0, np.float32)
HALF_A_STEP = 2.0**-8
"""How far rounding to bfloat16 goes, as a share."""


def _rows(*shape: int) -> Bits:
    return (RNG.normal(size=shape).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def _exact(bits: Bits) -> FloatArray:
    return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def _normed(rows: FloatArray, weights: Gains) -> FloatArray:
    normed: FloatArray = rows / np.sqrt((rows**2).mean(axis=-1, keepdims=True) + 1e-5) * weights
    return normed


def _near(found: Bits, wanted: FloatArray, slack: float = 1e-6) -> None:
    assert (np.abs(_exact(found) - wanted) <= HALF_A_STEP * np.abs(wanted) + slack).all()


def test_numbers_become_the_nearest_and_of_two_the_even_one() -> None:
    numbers = [0.0, -0.0, 1.0, 1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-20, -3.3, 1e-40, 3.4e38, np.inf, -np.inf]
    found = [float(_exact(np.array([narrowed(np.float32(one))], np.uint16))[0]) for one in numbers]
    wanted = [0.0, 0.0, 1.0, 1.0, 1 + 2**-6, 1 + 2**-7, -3.296875, 2**-133, np.inf, np.inf, -np.inf]
    np.testing.assert_allclose(found, wanted, rtol=1e-7)
    assert np.isnan(_exact(np.array([narrowed(np.float32(np.nan))], np.uint16))[0])


def test_powers_of_e() -> None:
    numbers = np.linspace(-87, 87, 1001, dtype=np.float32)
    found = [float(exponential(one)) for one in numbers]
    np.testing.assert_allclose(found, np.exp(numbers.astype(np.float64)), rtol=5e-6)
    assert exponential(np.float32(-1e30)) < 2e-38
    assert 1e37 < exponential(np.float32(1e30)) < np.inf


@pytest.mark.parametrize("count", [1, 3])
def test_sums_norms_and_gates(count: int) -> None:
    before, more, weights = _rows(count, 40), _rows(count, 40), RNG.normal(size=40).astype(np.float32)
    hidden, into = np.empty_like(before), np.empty_like(before)
    normalise(before, weights, 1e-5, into)
    _near(into, _normed(_exact(before), weights))
    add_and_normalise(before, more, weights, 1e-5, hidden, into)
    _near(hidden, _exact(before) + _exact(more))
    _near(into, _normed(_exact(hidden), weights))
    both, gated = _rows(count, 46), np.empty((1, count, 23), np.uint16)
    gate(both, gated)
    let, through = np.split(_exact(both), 2, axis=1)
    _near(gated[0], let / (1 + np.exp(-let)) * through)


@pytest.mark.parametrize(("batch", "count", "normed"), [(1, 1, False), (2, 3, True)])
def test_queries_and_keys_are_turned_and_the_cache_is_written(batch: int, count: int, normed: bool) -> None:
    heads, key_heads, size, start, columns = 4, 2, 6, 2, 7
    projected, cosine, sine = _rows(batch * count, 8 * size), _rows(batch * count, size), _rows(batch * count, size)
    of_query, of_key = (RNG.normal(size=size).astype(np.float32) if normed else NONE for _ in range(2))
    queries = np.empty((batch, key_heads, heads // key_heads * count, size), np.uint16)
    keys, values = (np.zeros((batch, key_heads, columns, size), np.uint16) for _ in range(2))
    turn(projected, cosine, sine, of_query, of_key, 1e-5, start, queries, keys, values)

    def by_head(kind: FloatArray) -> FloatArray:  # (B, heads, N, size)
        return kind.reshape(batch, count, -1, size).transpose(0, 2, 1, 3)

    def turned(kind: FloatArray, norm: Gains) -> FloatArray:
        kind = by_head(kind)
        kind = _normed(kind, norm) if normed else kind
        result: FloatArray = kind * by_head(_exact(cosine)) + np.roll(kind, size // 2, -1) * by_head(_exact(sine))
        return result

    query, key, value = np.split(_exact(projected), [heads * size, (heads + key_heads) * size], axis=1)
    _near(queries.reshape(batch, heads, count, size), turned(query, of_query), 1e-5)
    new = slice(start, start + count)
    _near(keys[:, :, new], turned(key, of_key), 1e-5)
    np.testing.assert_array_equal(_exact(values[:, :, new]), by_head(value))
    keys[:, :, new] = values[:, :, new] = 0
    assert not keys.any()  # nothing else was written
    assert not values.any()
