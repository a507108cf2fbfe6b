"""Laws of logits and draws from them, in the kernel that drafts."""

import numpy as np

from otspec.kernels.byte_drafts import _draw, _softmax


def test_laws_of_logits() -> None:
    logits = np.array([3.0, -np.inf, 2.5, -690.0, -800.0, 3.0], np.float32)
    law, wanted = np.empty(6), np.exp(logits.astype(np.float64) - 3)
    _softmax(logits, 1.0, law)
    np.testing.assert_allclose(law[:4], wanted[:4] / wanted.sum(), rtol=1e-14, atol=0)
    assert law[4] == 0
    _softmax(logits, 0.5, law)
    np.testing.assert_allclose(law, wanted**2 / (wanted**2).sum(), rtol=1e-13, atol=1e-300)
    _softmax(logits, 0.0, law)
    assert law.tolist() == [1, 0, 0, 0, 0, 0]  # of several, the first
    for bad in ([np.nan, 1.0, 2.0], [1.0, np.inf, 0.0], [-np.inf, -np.inf, -np.inf]):
        for temperature in (1.0, 0.0):
            _softmax(np.array(bad, np.float32), temperature, law[:3])
            assert law[:3].tolist() == [1, 0, 0]


def test_draws_invert_the_distribution_function() -> None:
    law = np.array([0.0, 0.25, 0.0, 1e-300, 0.5, 0.25, 0.0])
    uniform = np.array([0.0, 0.2499, 0.25, 0.7499, 0.75, 1 - 2.0**-53])
    drawn = np.empty(len(uniform), np.int64)
    _draw(law, uniform, drawn)
    assert drawn.tolist() == [1, 1, 4, 4, 5, 5]
