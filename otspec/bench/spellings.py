"""All solvers and rules that are installed, spelt as the commands take them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from otspec.catalogue import available, get
from otspec.extras import missing
from otspec.problem import Problem
from otspec.schemes import IID
from otspec.verification.rules.catalogue import CHAIN, JOINT

SPELT = {
    "global_resolution": f"global_resolution{CHAIN}naive",
    "submodular": "submodular:tol=1e-6",
    "distinct_drafters": "distinct_drafters:tol=1e-6",
}
"""Solvers that would soon fail as they are: one then draws from p, as printed, the others have a wider gap."""


def every_solver(probes: Sequence[Problem] | None = None) -> tuple[list[str], list[str]]:
    """Every solver with its variants that takes one of these problems: those installed, and those left out."""
    wanted = [_iid_pair()] if probes is None else probes
    spellings = [spelling for info in available() for spelling in (info.name, *info.variants)]
    spellings = [spelling for spelling in spellings if any(get(spelling).supports(one) is None for one in wanted)]
    left_out = [spelling for spelling in spellings if missing(get(spelling).packages)]
    return [spelling for spelling in spellings if spelling not in left_out], left_out


def spelt_out(words: Sequence[str], every: Callable[[], tuple[list[str], list[str]]]) -> tuple[list[str], list[str]]:
    """A list in which `all` stands for what `every` has installed, and what that leaves out."""
    known, left_out = every() if "all" in words else ([], [])
    return list(dict.fromkeys([*known, *(word for word in words if word != "all")])), left_out


def every_rule() -> tuple[list[str], list[str]]:
    """All joint rules of several paths and all solvers that are installed; and the solvers left out."""
    spellings, left_out = every_solver()
    names = [info.name for info in available()]
    joint = [name for name in JOINT if name != "block"]
    solvers = [SPELT.get(name, name) for name in names if name in spellings]
    return [*joint, *solvers], [name for name in names if name in left_out]


def _iid_pair() -> Problem:
    """Two i.i.d. drafts among three tokens."""
    law = np.arange(1.0, 4.0) / 6.0
    return Problem(law[::-1], IID(law, 2))
