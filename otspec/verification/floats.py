"""Laws as a model leaves them, for compiled code."""

from __future__ import annotations

from typing import Any

import numpy as np

from otspec.laws import as_float64


def as_floats(name: str, values: Any) -> Any:
    """A contiguous array of float32, if that is what came, or of float64."""
    if isinstance(values, np.ndarray) and values.dtype == np.float32:
        return np.ascontiguousarray(values)
    return np.ascontiguousarray(as_float64(name, values))
