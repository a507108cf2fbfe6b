"""Verifying the paths of a drafted tree jointly: which prefix to accept, and which token to add.

`tree` merges the paths, `protocol` says what a verifier answers; `block` verifies a picked path, `nested` picks it best
by `labels`, how they are shared (`sharing`) and which of them is the largest (`winning`); `pick_then_block`,
`token_wise`, `traversal`, `layer` and `hierarchical` are the rules to compare with, `match` is for fixed drafts,
`pick_by_plan` for trees whose siblings are drawn jointly;
`enumeration` and `upper_bound` judge them on small models, `walking` and `causal_bound` by sampling on models of any
size, such as `synthetic` makes, `drafted_bound` on recorded trees.  `catalogue` has the rules by name.  `reach` says
how deep a rule gets on drafts of a shape, and `best_shape` which shape to draft.
The statements and their proofs are in `docs/paths.md`.
"""

from typing import TYPE_CHECKING

from otspec.deprecation import former_names
from otspec.paths.best_shape import Measured, best_shape, measure, shapes_within
from otspec.paths.block import Block
from otspec.paths.causal_bound import CausalBound, causal_bound, causal_tree_bound
from otspec.paths.drafted_bound import drafted_bound
from otspec.paths.enumeration import PathLaw, path_law, tree_law
from otspec.paths.hierarchical import Hierarchical
from otspec.paths.layer import LayerVerification
from otspec.paths.match import Match
from otspec.paths.nested import GreedyMultiPath, Nested
from otspec.paths.pick_by_plan import PickByPlan
from otspec.paths.pick_then_block import PickThenBlock
from otspec.paths.protocol import PathVerification, PathVerifier, PickRule
from otspec.paths.reach import Context, reach
from otspec.paths.synthetic import REGIMES, Regime, scattered, synthetic
from otspec.paths.token_wise import TokenWise
from otspec.paths.traversal import Traversal
from otspec.paths.tree import Model, Tree
from otspec.paths.upper_bound import bound, tree_bound
from otspec.paths.walking import Estimate, Models, accepted_length

__all__ = [
    "REGIMES",
    "Block",
    "CausalBound",
    "Context",
    "Estimate",
    "GreedyMultiPath",
    "Hierarchical",
    "LayerVerification",
    "Match",
    "Measured",
    "Model",
    "Models",
    "Nested",
    "PathLaw",
    "PathVerification",
    "PathVerifier",
    "PickByPlan",
    "PickRule",
    "PickThenBlock",
    "Regime",
    "TokenWise",
    "Traversal",
    "Tree",
    "accepted_length",
    "best_shape",
    "bound",
    "causal_bound",
    "causal_tree_bound",
    "drafted_bound",
    "measure",
    "path_law",
    "reach",
    "scattered",
    "shapes_within",
    "synthetic",
    "tree_bound",
    "tree_law",
]

if not TYPE_CHECKING:
    __getattr__ = former_names(
        __name__,
        {},
        {
            "Clocks": "it is in otspec.proofs_check.own.clocks, for its claims; docs/tried.md says why",
            "Confident": "shapes chosen while drafting gained nothing; see docs/tried.md",
            "chosen_law": "shapes chosen while drafting gained nothing; see docs/tried.md",
        },
    )
