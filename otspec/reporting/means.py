"""Means as they are told: beside their standard errors."""

from __future__ import annotations

import numpy as np

from otspec.laws import FloatArray


def standard_error(values: FloatArray) -> float:
    """Of a mean; NaN for fewer than two values."""
    return float(values.std(ddof=1) / np.sqrt(values.size)) if values.size > 1 else float("nan")
