"""matplotlib as every picture of ours uses it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from otspec.extras import require
from otspec.laws import FloatArray


def pyplot() -> Any:
    """matplotlib without a screen.

    Raises
    ------
    MissingExtra
        If it is not installed.
    """
    require("matplotlib").use("Agg")
    return require("matplotlib.pyplot")


def error_bars(intervals: Sequence[tuple[float, float, float]]) -> FloatArray:
    """Lengths of error bars below and above figures, shape (2, n), from (figure, low, high); 0 for NaN."""
    lengths = [(value - low, high - value) for value, low, high in intervals]
    return np.nan_to_num(np.array(lengths)).clip(min=0).T
