"""Target and draft laws that are hard on sums: the i.i.d. members of the package's families."""

from otspec import IID
from tests.instances import VARIED
from tests.laws import Pair

PAIRS: dict[str, Pair] = {
    instance.name: (instance.problem.p, instance.problem.scheme.q)
    for instance in VARIED
    if isinstance(instance.problem.scheme, IID)
}
"""p and q by name."""
