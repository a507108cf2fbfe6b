"""Verifying the paths of a drafted tree jointly: which prefix to accept, and which token to add.

The public names of `otspec.verification` that are about trees: their types (`Shape`, `Topology`, `Tree`, `Model`), the
rules for them, how much they accept, bounds on every rule, and laws by enumeration.  The statements and their proofs
are in `docs/paths.md`.
"""

from otspec.verification.bounds.causal_bound import CausalBound, causal_bound, causal_tree_bound
from otspec.verification.bounds.upper_bound import bound, tree_bound
from otspec.verification.evaluation.synthetic import REGIMES, Regime, scattered, synthetic
from otspec.verification.evaluation.walking import Estimate, Models, accepted_length
from otspec.verification.reference.enumeration import PathLaw, path_law, tree_law
from otspec.verification.rules.block.block import Block
from otspec.verification.rules.hierarchical import Hierarchical
from otspec.verification.rules.layer import LayerVerification
from otspec.verification.rules.match import Match
from otspec.verification.rules.nested.nested import GreedyMultiPath, Nested
from otspec.verification.rules.pick_by_plan import PickByPlan
from otspec.verification.rules.protocol import PathVerification, PathVerifier, PickRule
from otspec.verification.rules.token_wise.token_wise import TokenWise
from otspec.verification.rules.traversal import Traversal
from otspec.verification.trees.choices import best_choices, choices_of, shape_of_choices, spelled
from otspec.verification.trees.shape import Shape
from otspec.verification.trees.topology import Topology
from otspec.verification.trees.tree import Model, Tree

__all__ = [
    "REGIMES",
    "Block",
    "CausalBound",
    "Estimate",
    "GreedyMultiPath",
    "Hierarchical",
    "LayerVerification",
    "Match",
    "Model",
    "Models",
    "Nested",
    "PathLaw",
    "PathVerification",
    "PathVerifier",
    "PickByPlan",
    "PickRule",
    "Regime",
    "Shape",
    "TokenWise",
    "Topology",
    "Traversal",
    "Tree",
    "accepted_length",
    "best_choices",
    "bound",
    "causal_bound",
    "causal_tree_bound",
    "choices_of",
    "path_law",
    "scattered",
    "shape_of_choices",
    "spelled",
    "synthetic",
    "tree_bound",
    "tree_law",
]
