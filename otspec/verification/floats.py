"""Laws as a model leaves them, for compiled code."""

from __future__ import annotations

from typing import Any

import numpy as np

from otspec.laws import as_float64


def as_floats(name: str, values: Any) -> Any:
    """A contiguous array of float32, if that is what came, or of float64.

    It cannot be written to, as the laws of a problem cannot: numba compiles a second time for arrays that can.
    """
    is_float32 = isinstance(values, np.ndarray) and values.dtype == np.float32
    floats = np.ascontiguousarray(values if is_float32 else as_float64(name, values)).view()
    floats.flags.writeable = False
    return floats
