"""Hierarchical speculative decoding, as its paper defines it, is block verification: over all paths, exactly."""

import itertools

import numpy as np
import pytest

from otspec.paths import Block, Hierarchical, PathVerifier, path_law
from otspec.proofs_check.own.released import ReleasedHierarchical
from tests.verification.models import FAMILIES, model

AS_PRINTED = ReleasedHierarchical(capped=True)
SIZES = ((2, 4), (3, 3), (4, 2))


def _largest_gap(rule: PathVerifier, family: str, seed: int) -> float:
    """Of the two laws of the verdict, times how likely the path is: one of 1e-14 has weights that rounding decides."""
    worst = 0.0
    for vocab, length in SIZES:
        laws = model(family, vocab, seed)
        for path in itertools.product(range(vocab), repeat=length):
            if chance := np.prod([laws.draft(path[:level])[token] for level, token in enumerate(path)]):
                tree = laws.tree([path])
                gap = np.abs(rule.stop_law(tree) - Hierarchical().stop_law(tree)).max()
                worst = max(worst, float(chance * gap))
    return worst


@pytest.mark.parametrize("family", FAMILIES)
def test_the_rule_as_printed_is_block_verification(family: str) -> None:
    assert all(_largest_gap(AS_PRINTED, family, seed) <= 1e-13 for seed in range(2))


def test_the_rule_as_released_is_not() -> None:
    assert _largest_gap(ReleasedHierarchical(), "tiny", 1) > 1e-3


def test_the_name_stands_for_block_verification() -> None:
    laws = model("tiny", 3, 6)
    named, block = (path_law(rule, laws, 1, 2) for rule in (Hierarchical(), Block()))
    np.testing.assert_array_equal(named.output, block.output)
    assert isinstance(Hierarchical(), Block)
