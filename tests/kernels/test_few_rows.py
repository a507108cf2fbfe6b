"""Numbers of bfloat16 and powers of e; what is made of them is a layer's: test_byte_weights.py."""

import numpy as np

from otspec.kernels.exponentials import exp32, exp64
from otspec.kernels.few_rows import narrowed
from tests.kernels.test_byte_weights import exact


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
