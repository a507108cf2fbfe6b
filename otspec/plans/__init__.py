"""Plans: what a solver hands back, a rule that turns drafts into one token and computes its own figures."""

from otspec.plans.coupling import Coupling
from otspec.plans.lossy import Lossy
from otspec.plans.match import Match
from otspec.plans.pick import Pick, PickRule, PickTable, canonical_decomposition
from otspec.plans.protocol import Plan
from otspec.plans.sequential import BiasedPlan, FixedTests, Sequential, SequentialRule
from otspec.plans.storage import load

__all__ = [
    "BiasedPlan",
    "Coupling",
    "FixedTests",
    "Lossy",
    "Match",
    "Pick",
    "PickRule",
    "PickTable",
    "Plan",
    "Sequential",
    "SequentialRule",
    "canonical_decomposition",
    "load",
]
