"""Verifying the paths of a drafted tree jointly: which prefix to accept, and which token to add.

`tree` merges the paths, `protocol` says what a verifier answers; `block` verifies a picked path, `nested` picks it best
by `labels`, how they are shared (`sharing`) and which of them is the largest (`winning`); `pick_then_block`,
`token_wise` and `traversal` are the rules to compare with, `pick_by_plan` is for trees whose siblings are drawn
jointly; `enumeration` and `upper_bound` judge them on small models, `walking` and `causal_bound` by sampling on models
of any size, such as `synthetic` makes.  The statement and its proof are in `docs/paths.md`.
"""

from otspec.paths.block import Block
from otspec.paths.causal_bound import CausalBound, causal_bound, causal_tree_bound
from otspec.paths.enumeration import PathLaw, path_law, tree_law
from otspec.paths.nested import GreedyMultiPath, Nested
from otspec.paths.pick_by_plan import PickByPlan
from otspec.paths.pick_then_block import PickThenBlock
from otspec.paths.protocol import PathVerification, PathVerifier, PickRule
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
    "Estimate",
    "GreedyMultiPath",
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
    "bound",
    "causal_bound",
    "causal_tree_bound",
    "path_law",
    "scattered",
    "synthetic",
    "tree_bound",
    "tree_law",
]
