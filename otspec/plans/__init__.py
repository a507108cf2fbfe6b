"""Plans: what a solver hands back, a rule that turns drafts into one token and knows its own figures."""

from otspec.plans.coupling import Coupling
from otspec.plans.pick import Pick, PickRule, PickTable, canonical_decomposition
from otspec.plans.protocol import Plan

__all__ = ["Coupling", "Pick", "PickRule", "PickTable", "Plan", "canonical_decomposition"]
