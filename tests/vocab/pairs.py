"""Target and draft laws that are hard on sums: the i.i.d. members of the package's families."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from otspec import IID
from tests.instances import VARIED

Floats = npt.NDArray[np.float64]

PAIRS: dict[str, tuple[Floats, Floats]] = {
    instance.name: (instance.problem.p, instance.problem.scheme.q)
    for instance in VARIED
    if isinstance(instance.problem.scheme, IID)
}
"""p and q by name."""
