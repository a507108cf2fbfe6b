"""Verification of drafts: which prefix to accept, and which token to add, for one position or a drafted tree.

The public names are those of the optimal rule for one position (`verify`, `verify_logits`, `solve_batch`) and those of
trees: their types (`Shape`, `Topology`, `Tree`, `Model`), the rules for them, how much they accept, bounds on every
rule, and laws by enumeration.  The statements and their proofs are in `docs/paths.md`.

From the ground up: `tensors` is arithmetic, `trees` has the types of drafted trees, `rules` every rule with its
implementations, `device` the entries for tensors, `reference` what is slow and exact, `evaluation` how deep a rule
gets, and `bounds` what none can exceed.

Laws come as a model leaves them, float32 or float64, with a total that a float32 softmax may have left a little off 1.
Each is divided by its total in float64, and all that follows is computed in float64: "lossless" means that the output
has the law p / sum(p) of the p that was given, for drafts that have the law q / sum(q).
"""

from typing import TYPE_CHECKING

from otspec.lazy import attach

if TYPE_CHECKING:
    from otspec.verification.batch import Batch, solve_batch
    from otspec.verification.bounds.causal_bound import CausalBound, causal_bound, causal_tree_bound
    from otspec.verification.bounds.upper_bound import bound, tree_bound
    from otspec.verification.evaluation.accepted_length import Estimate, Models, accepted_length
    from otspec.verification.evaluation.synthetic import REGIMES, Regime, recorded_model, synthetic
    from otspec.verification.logits import verify_logits
    from otspec.verification.one import Verification, verify
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
    from otspec.verification.trees.choices import best_choices, choices_of, shape_of_choices, tree_text
    from otspec.verification.trees.shape import Shape
    from otspec.verification.trees.topology import Topology
    from otspec.verification.trees.tree import Model, Tree

__all__ = [
    "REGIMES",
    "Batch",
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
    "Verification",
    "accepted_length",
    "best_choices",
    "bound",
    "causal_bound",
    "causal_tree_bound",
    "choices_of",
    "path_law",
    "recorded_model",
    "shape_of_choices",
    "solve_batch",
    "synthetic",
    "tree_bound",
    "tree_law",
    "tree_text",
    "verify",
    "verify_logits",
]

__getattr__, __dir__ = attach(__name__)
