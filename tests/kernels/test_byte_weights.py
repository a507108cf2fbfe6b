"""Products by weights of 8 bits are exact but for rounding, and a layer is what float64 makes of the same weights.

So are numbers of bfloat16 and powers of e, of which it is made.
"""

import numpy as np
import pytest

from otspec.kernels.byte_weights import ByteLayer, ByteMatrix, layer, multiply, product
from otspec.kernels.exponentials import exp32, exp64
from otspec.kernels.few_rows import Bits, Gains, narrowed
from otspec.laws import FloatArray

RNG = np.random.default_rng(0)
NONE = np.empty(0, np.float32)


def _bits(exact: FloatArray) -> Bits:
    return (exact.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def exact(bits: Bits) -> FloatArray:
    return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def _matrix(outputs: int, inputs: int) -> ByteMatrix:
    weights = RNG.normal(size=(outputs, inputs)).astype(np.float32) / np.float32(inputs**0.5)
    return ByteMatrix.of(weights, RNG.normal(size=outputs).astype(np.float32))


def _times(rows: FloatArray, matrix: ByteMatrix) -> FloatArray:
    found: FloatArray = rows @ (matrix.weights * matrix.scales[:, None].astype(np.float64)).T + matrix.bias
    return found


def test_weights_are_rounded_to_the_nearest_of_255() -> None:
    weights = RNG.normal(size=(5, 40)).astype(np.float32)
    weights[1], weights[2, 0] = 0, 1e3
    matrix = ByteMatrix.of(weights, np.zeros(5, np.float32))
    assert (np.abs(matrix.weights[[0, 2, 3, 4]]).max(axis=1) == 127).all()
    error = np.abs(matrix.weights * matrix.scales[:, None] - weights)
    assert (error <= 0.501 * matrix.scales[:, None]).all()
    assert not matrix.weights[1].any()


@pytest.mark.parametrize("rows", range(1, 8))
@pytest.mark.parametrize("outputs", [4, 5, 7, 30])
def test_products(rows: int, outputs: int) -> None:
    block, matrix = _bits(RNG.normal(size=(rows, 37))), _matrix(outputs, 37)
    found, wanted = np.full((rows, outputs), np.nan, np.float32), _times(exact(block), matrix)
    multiply(block, matrix, found)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(exact(product(block, matrix)), wanted, rtol=2.0**-8, atol=1e-5)


@pytest.mark.parametrize(
    ("batch", "count", "masked", "normed"), [(1, 1, False, False), (1, 3, True, True), (2, 2, True, False)]
)
def test_a_layer(batch: int, count: int, masked: bool, normed: bool) -> None:
    heads, key_heads, size, width, middle, start, columns = 4, 2, 6, 20, 22, 3, 9
    norms = [1 + 0.1 * RNG.normal(size=width).astype(np.float32) for _ in range(2)]
    of_query, of_key = (1 + 0.1 * RNG.normal(size=size).astype(np.float32) if normed else NONE for _ in range(2))
    weights = ByteLayer(
        norms[0], _matrix((heads + 2 * key_heads) * size, width), of_query, of_key, _matrix(width, heads * size),
        norms[1], _matrix(2 * middle, width), _matrix(width, middle),
    )  # fmt: skip
    hidden = _bits(RNG.normal(size=(batch * count, width)))
    cosine, sine = (_bits(RNG.normal(size=(batch * count, size))) for _ in range(2))
    keys, values = (_bits(RNG.normal(size=(batch, key_heads, columns, size))) for _ in range(2))
    stop = start + count
    mask = np.zeros((batch, count, stop)) if masked else np.zeros((0, 0, 0))
    if masked:
        mask[:, 0, 1], mask[-1, -1, : stop - 1] = np.finfo(np.float32).min, np.finfo(np.float32).min

    def normalised(rows: FloatArray, gains: Gains) -> FloatArray:
        found: FloatArray = rows / np.sqrt((rows**2).mean(axis=-1, keepdims=True) + 1e-5)
        return found * gains if len(gains) else rows

    def turned(rows: FloatArray, gains: Gains) -> FloatArray:  # (B N, heads, size) to (B, heads, N, size)
        rows = normalised(rows, gains)
        rows = rows * exact(cosine)[:, None] + np.roll(rows, size // 2, -1) * exact(sine)[:, None]
        return rows.reshape(batch, count, -1, size).transpose(0, 2, 1, 3)

    before = exact(hidden)
    projected = _times(normalised(before, norms[0]), weights.projections).reshape(len(hidden), -1, size)
    query, key, value = np.split(projected, [heads, heads + key_heads], axis=1)
    all_keys, all_values = exact(keys), exact(values)
    all_keys[:, :, start:stop] = turned(key, of_key)
    all_values[:, :, start:stop] = value.reshape(batch, count, -1, size).transpose(0, 2, 1, 3)
    group = heads // key_heads
    scores = turned(query, of_query) @ all_keys[:, :, :stop].repeat(group, 1).swapaxes(-1, -2) / size**0.5
    shares = np.exp(scores + (mask[:, None] if masked else 0))
    found = shares / shares.sum(axis=-1, keepdims=True) @ all_values[:, :, :stop].repeat(group, 1)
    middle_rows = before + _times(found.transpose(0, 2, 1, 3).reshape(len(hidden), -1), weights.out)
    let, through = np.split(_times(normalised(middle_rows, norms[1]), weights.gate_up), 2, axis=1)
    wanted = middle_rows + _times(let / (1 + np.exp(-let)) * through, weights.down)

    layer(hidden, weights, cosine, sine, 1e-5, start, _bits(mask), keys, values)
    scale = np.abs(wanted).max()
    assert np.abs(exact(hidden) - wanted).max() <= 0.02 * scale  # what goes from step to step is rounded
    np.testing.assert_allclose(exact(keys), all_keys, atol=0.05)
    np.testing.assert_allclose(exact(values), all_values, atol=0.05)


def test_numbers_become_the_nearest_and_of_two_the_even_one() -> None:
    numbers = [0.0, -0.0, 1.0, 1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-20, -3.3, 1e-40, 3.4e38, np.inf, -np.inf]
    found = [float(exact(np.array([narrowed(np.float32(one))], np.uint16))[0]) for one in numbers]
    wanted = [0.0, 0.0, 1.0, 1.0, 1 + 2**-6, 1 + 2**-7, -3.296875, 2**-133, np.inf, np.inf, -np.inf]
    np.testing.assert_allclose(found, wanted, rtol=1e-7)
    assert np.isnan(exact(np.array([narrowed(np.float32(np.nan))], np.uint16))[0])


def test_powers_of_e() -> None:
    numbers = np.linspace(-87, 87, 1001, dtype=np.float32)
    found = [float(exp32(one)) for one in numbers]
    np.testing.assert_allclose(found, np.exp(numbers.astype(np.float64)), rtol=5e-6)
    assert exp32(np.float32(-1e30)) < 2e-38
    assert 1e37 < exp32(np.float32(1e30)) < np.inf
    precise = np.linspace(-707, 0, 4001)
    np.testing.assert_allclose([exp64(one) for one in precise], np.exp(precise), rtol=1e-15)
    assert exp64(-np.inf) == exp64(-1e300) == 0
