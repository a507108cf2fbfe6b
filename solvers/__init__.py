"""The solvers, one file each; importing this package registers them all."""

from otspec.solvers.canonical import Canonical
from otspec.solvers.closed_form import ClosedForm
from otspec.solvers.global_resolution import GlobalResolution
from otspec.solvers.interval import Interval
from otspec.solvers.kseq import KSeq
from otspec.solvers.layered import Layered
from otspec.solvers.lp import LP
from otspec.solvers.max_flow import MaxFlow
from otspec.solvers.naive import Naive
from otspec.solvers.polymatroid import Polymatroid
from otspec.solvers.race import Race
from otspec.solvers.rrs import RRS
from otspec.solvers.rsd import RSD
from otspec.solvers.single import Single
from otspec.solvers.slackness import Slackness
from otspec.solvers.spechub import SpecHub
from otspec.solvers.sweep import Sweep

__all__ = [
    "LP",
    "RRS",
    "RSD",
    "Canonical",
    "ClosedForm",
    "GlobalResolution",
    "Interval",
    "KSeq",
    "Layered",
    "MaxFlow",
    "Naive",
    "Polymatroid",
    "Race",
    "Single",
    "Slackness",
    "SpecHub",
    "Sweep",
]
