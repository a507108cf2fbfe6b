"""Accepted lengths: of a tree, along texts, and context by context."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from otspec.laws import FloatArray
from otspec.paths import Block, Context, PathVerifier, PickRule, Traversal, Tree, measure
from otspec.verification.evaluation.walking import Line, length_along


def accepted(verifier: PathVerifier, tree: Tree, lines: Sequence[Line] = ()) -> float:
    """Mean number of accepted tokens: along texts, where there are some and the rule allows it, or given the tree."""
    if lines and isinstance(verifier, PickRule):
        return float(np.mean([length_along(verifier, line, tree.shape) for line in lines]))
    return float(tree.depth @ verifier.stop_law(tree).sum(axis=1))


def lengths_of(rule: PathVerifier, contexts: Sequence[Context], branching: tuple[int, ...]) -> FloatArray:
    """Accepted lengths, shape (contexts,).

    Traversal hangs on the first path of its tree as block verification does, of which more is known: to what it accepts
    is added what block verification accepts along the context's text, less that of the tree's first path.
    """
    lengths = measure(rule, contexts, branching).lengths
    if isinstance(rule, Traversal):
        lengths = lengths + measure(Block(), contexts, branching).lengths
        for number, context in enumerate(contexts):
            lengths[number] -= accepted(Block(), context.tree(branching))
    return lengths
