"""Sections 3 to 5.3: what the counterexamples say in numbers, and small cases in full."""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from otspec.proofs_check import CLAIMS, Claim
from otspec.proofs_check.global_resolution.submodular import GRID
from otspec.proofs_check.oracles import members, sums


def quarters(vocab: int) -> Iterator[np.ndarray]:
    """All laws of multiples of 1/4: many ties, many zeros."""
    for counts in itertools.product(range(5), repeat=vocab):
        if sum(counts) == 4:
            yield np.array(counts) / 4


def holds(claim: Claim, **instance: Any) -> bool:
    return not claim.contradicted_by(claim.margin_of(instance))


@pytest.mark.parametrize("n", [1, 2, 3])
def test_prefixes_on_all_laws_of_quarters_in_all_orders_of_ties(n: int) -> None:
    claim = CLAIMS["gr-prefix-minimiser"]
    ties = [np.array(order) / 4 for order in itertools.permutations(range(3))]
    for number, (p, q) in enumerate(itertools.product(quarters(3), repeat=2)):
        assert holds(claim, p=p, q=q, n=n, ties=ties[number % 6]), (p, q)


def test_a_minimum_cut_on_all_pairs_of_laws_of_quarters() -> None:
    claim = CLAIMS["gr-appendix-D"]
    for p in (np.array([0.25, 0.25, 0.5]), np.array([0.0, 0.5, 0.5])):
        for q1, q2 in itertools.combinations(quarters(3), 2):
            assert holds(claim, p=p, q1=q1, q2=q2), (p, q1, q2)
    assert GRID % 4 == 0


def test_every_minor_of_two_drafts_of_two_tokens() -> None:
    matrix = np.concatenate(sums(members(np.array(list(np.ndindex(2, 2))), 2)))
    assert matrix.shape == (6, 6)
    for size in range(1, 7):
        for rows, columns in itertools.product(itertools.combinations(range(6), size), repeat=2):
            minor = np.linalg.det(matrix[np.ix_(rows, columns)])
            assert min(abs(minor - value) for value in (-1, 0, 1)) < 1e-9
