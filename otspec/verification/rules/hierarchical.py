"""Hierarchical speculative decoding of one path: a name for block verification."""

from __future__ import annotations

from dataclasses import dataclass

from otspec.verification.rules.block.block import Block


@dataclass(frozen=True)
class Hierarchical(Block):
    """Hierarchical speculative decoding with capped branch resampling [zhou2026hierarchical]: block verification.

    On every path that the draft model can draw, both stop after each number of tokens with the same probability and
    add a token of the same law, whatever the models' laws.  With r(x_1 .. x_t) the ratio of the joint probabilities
    p/q, the paper's capped ratio r* of a prefix is its r over the largest r of a shorter one, if that is above 1
    [zhou2026hierarchical, eq. (16)]; block verification's weight w_t = min(1, w_(t-1) p/q) is r over the largest r so
    far, so r* of the next token is w_t p/q, and eqs. (17) to (20) are block verification's.  This holds for the capped
    rule, as printed: the authors' code forgets the cap in its last step and is not lossless.  Proof and a test by
    enumeration: Theorem 7 of docs/paths.md.

    Examples
    --------
    >>> import numpy as np
    >>> from otspec.verification import Block, Hierarchical, synthetic
    >>> model = synthetic("mixed", vocab=50)
    >>> tree = model.tree(model.sample(1, 4, rng=0))
    >>> bool(np.array_equal(Hierarchical().stop_law(tree), Block().stop_law(tree)))
    True
    """
