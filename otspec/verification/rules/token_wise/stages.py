"""Which levels of trees are walked together, token by token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

STAGE = 16
"""Problems of one tree that are solved before the walk goes on.  Those that it does not come to are solved in vain, and
those that wait for it are solved one after the other."""


class Stage(NamedTuple):
    """Levels that are walked together: no tree, but an entry of the plan that `stages_of` makes."""

    begin: int
    end: int
    problems: int
    """Of each tree, at most."""


def stages_of(widths: Sequence[int], slots: int) -> list[Stage]:
    """Levels from the root on, cut so that each stage has few problems: heads with two drafts or more.

    Parameters
    ----------
    widths : sequence of int
        Slots of each level at most, the root's first.
    slots : int
        S.
    """
    stages = [Stage(0, 0, 0)]
    for level, width in enumerate(widths[:-1]):
        several = min(width, widths[level + 1] // 2)
        begin, end, problems = stages[-1]
        if end > begin and min(problems + several, (slots - 1) // 2) > STAGE:
            stages.append(Stage(level, level, 0))
            begin, end, problems = stages[-1]
        # A stage begins at a single head, the one that the walk has come to.
        problems += min(several, 1) if level == begin else several
        stages[-1] = Stage(begin, level + 1, min(problems, (slots - 1) // 2))
    return stages
