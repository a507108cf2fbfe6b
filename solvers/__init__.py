"""The solvers, a file or a folder each with its machinery; importing this package registers them all."""

from otspec.solvers.canonical import Canonical
from otspec.solvers.closed_form import ClosedForm
from otspec.solvers.distinct_drafters import DistinctDrafters
from otspec.solvers.global_resolution import GlobalResolution
from otspec.solvers.interval import Interval
from otspec.solvers.lp import LP
from otspec.solvers.max_flow import MaxFlow
from otspec.solvers.rules import RRS, RSD, KSeq, Naive, Single, SpecHub
from otspec.solvers.slackness import Slackness
from otspec.solvers.submodular import Submodular
from otspec.solvers.without_replacement import WithoutReplacementSolver

__all__ = [
    "LP",
    "RRS",
    "RSD",
    "Canonical",
    "ClosedForm",
    "DistinctDrafters",
    "GlobalResolution",
    "Interval",
    "KSeq",
    "MaxFlow",
    "Naive",
    "Single",
    "Slackness",
    "SpecHub",
    "Submodular",
    "WithoutReplacementSolver",
]
