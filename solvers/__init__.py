"""The solvers, one file each; importing this package registers them all."""

from otspec.solvers.canonical import Canonical
from otspec.solvers.closed_form import ClosedForm
from otspec.solvers.global_resolution import GlobalResolution
from otspec.solvers.interval import Interval
from otspec.solvers.layered import Layered
from otspec.solvers.lp import LP
from otspec.solvers.max_flow import MaxFlow
from otspec.solvers.polymatroid import Polymatroid
from otspec.solvers.slackness import Slackness
from otspec.solvers.sweep import Sweep

__all__ = [
    "LP",
    "Canonical",
    "ClosedForm",
    "GlobalResolution",
    "Interval",
    "Layered",
    "MaxFlow",
    "Polymatroid",
    "Slackness",
    "Sweep",
]
