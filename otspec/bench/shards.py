"""Disjoint parts of a run that need to know nothing of each other."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from otspec.errors import ProblemError


@dataclass(frozen=True)
class Shard:
    """One of several parts of a run."""

    number: int = 1
    """From 1 to `count`."""
    count: int = 1

    @classmethod
    def of(cls, text: str) -> Shard:
        """The shard that is written as ``2/8``.

        Raises
        ------
        ProblemError
            If it is not written so, or there is none of that number.
        """
        found = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text)
        if found is None or not 1 <= int(found[1]) <= int(found[2]):
            raise ProblemError(f"no shard {text!r}; write 1/8 for the first of eight parts, ..., 8/8 for the last")
        return cls(int(found[1]), int(found[2]))

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    def takes(self, unit: int, group: int) -> bool:
        """Whether a unit of work is of this part.

        Units are dealt out one by one, so that neighbours, which are of one size, go to different parts, and no part
        has more than one unit more than another.  Where the dealing would begin every group at the same part, which
        then had the slowest solver of them all, it moves on by one.

        Parameters
        ----------
        unit : int
            Number of the unit in the whole run, from 0 on.
        group : int
            Units that make a group, such as those of one setting; each begins anew with the same solvers.
        """
        return (unit + unit // math.lcm(group, self.count)) % self.count == self.number - 1


WHOLE = Shard()
"""All of a run."""
