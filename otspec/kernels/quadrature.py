"""Gauss-Legendre sums, by which the picks of rules and the worth of tokens are integrated exactly."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from otspec.laws import FloatArray


@lru_cache
def quadrature(n: int) -> tuple[FloatArray, FloatArray]:
    """Nodes and weights on [0, 1], shape ((n + 1) // 2,), that integrate polynomials of degree n - 1 exactly."""
    nodes, weights = np.polynomial.legendre.leggauss((n + 1) // 2)
    return 0.5 * (1.0 + nodes), 0.5 * weights
