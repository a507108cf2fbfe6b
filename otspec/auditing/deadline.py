"""The time that an audit may take."""

from __future__ import annotations

import time


class OutOfTime(Exception):
    """The time is up."""


class Deadline:
    """A moment after which the rule is not called again.

    Parameters
    ----------
    seconds : float, optional
        Seconds from now; None for no end.
    """

    def __init__(self, seconds: float | None) -> None:
        self._end = None if seconds is None else time.monotonic() + seconds

    def check(self) -> None:
        """Raise `OutOfTime` if it has passed."""
        if self._end is not None and time.monotonic() >= self._end:
            raise OutOfTime
