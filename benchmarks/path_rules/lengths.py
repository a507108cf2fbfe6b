"""Accepted lengths: of a tree, and along texts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from otspec.paths import PathVerifier, PickRule, Tree
from otspec.verification.evaluation.walking import Line, length_along


def accepted(verifier: PathVerifier, tree: Tree, lines: Sequence[Line] = ()) -> float:
    """Mean number of accepted tokens: along texts, where there are some and the rule allows it, or given the tree."""
    if lines and isinstance(verifier, PickRule):
        return float(np.mean([length_along(verifier, line, tree.shape) for line in lines]))
    return float(tree.depth @ verifier.stop_law(tree).sum(axis=1))
