"""The solvers, a file or a folder each with its machinery; importing this package registers them all."""

from otspec.solvers.canonical import Canonical
from otspec.solvers.closed_form import ClosedForm
from otspec.solvers.global_resolution import GlobalResolution
from otspec.solvers.interval import Interval
from otspec.solvers.lp import LP
from otspec.solvers.luce import Luce
from otspec.solvers.max_flow import MaxFlow
from otspec.solvers.polymatroid import Polymatroid
from otspec.solvers.release import Release
from otspec.solvers.rules import RRS, RSD, KSeq, Naive, Single, SpecHub
from otspec.solvers.slackness import Slackness

__all__ = [
    "LP",
    "RRS",
    "RSD",
    "Canonical",
    "ClosedForm",
    "GlobalResolution",
    "Interval",
    "KSeq",
    "Luce",
    "MaxFlow",
    "Naive",
    "Polymatroid",
    "Release",
    "Single",
    "Slackness",
    "SpecHub",
]
