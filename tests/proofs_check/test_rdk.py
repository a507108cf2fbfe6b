"""What a claim of RDK rests on: the probability that a bound fails, against simulation."""

import numpy as np
import pytest

from otspec.proofs_check.rdk.softmax import failure
from otspec.vocab import acceptance_rate, affinity_from_matrix, rdk


@pytest.mark.parametrize(("a", "gap"), [(0.6, -1.0), (0.9, -2.0), (0.75, -3.0), (1.0, -1.0), (0.5, -2.0)])
def test_the_probability_of_theorem_5_3_is_that_of_a_simulation(a: float, gap: float) -> None:
    draws = 200_000
    rng = np.random.default_rng(0)
    z = rng.multivariate_normal([0.0, gap], [[a, 1 - a], [1 - a, a]], draws)
    p = np.exp(z - z.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    q = np.array([1.0, 0.0])
    moved = rdk(q, affinity_from_matrix([[a, 1 - a], [1 - a, a]]))
    lost = (acceptance_rate(p, moved) < acceptance_rate(p, q) - 1e-12).mean()
    expected = failure(a, gap, np.sqrt(4 * a - 2))
    assert lost == pytest.approx(expected, abs=5 * np.sqrt(expected * (1 - expected) / draws) + 1e-12)
    assert (expected > 0.1) == (a < 1)  # the identity cannot lose
