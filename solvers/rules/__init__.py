"""The published verification rules, with exact laws and their gap to alpha*."""

from otspec.solvers.rules.kseq import KSeq
from otspec.solvers.rules.naive import Naive
from otspec.solvers.rules.rrs import RRS
from otspec.solvers.rules.rsd import RSD
from otspec.solvers.rules.single import Single
from otspec.solvers.rules.spechub import SpecHub

__all__ = ["RRS", "RSD", "KSeq", "Naive", "Single", "SpecHub"]
