"""matplotlib as every picture of ours uses it."""

from __future__ import annotations

from typing import Any

from otspec.extras import require


def pyplot() -> Any:
    """matplotlib without a screen.

    Raises
    ------
    MissingExtra
        If it is not installed.
    """
    require("matplotlib").use("Agg")
    return require("matplotlib.pyplot")
