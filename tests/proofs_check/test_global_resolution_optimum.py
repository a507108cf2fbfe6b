"""Sections 3 to 5.3: what the counterexamples say in numbers, and small cases in full."""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from otspec.proofs_check import CLAIMS, Claim
from otspec.proofs_check.global_resolution.submodular import GRID
from otspec.proofs_check.oracles import members, psi_independent, sums


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


def test_the_printed_sign_of_equation_34() -> None:
    p, q1, q2 = np.array([0.3, 0.7]), np.array([0.8, 0.2]), np.array([0.6, 0.4])
    values = psi_independent(p, np.array([q1, q2]))
    assert values.min() == pytest.approx(0.3 - 0.48)
    assert values.argmin() == 0b01
    # As printed rho is 2 where psi is 0, at all of V.
    assert CLAIMS["gr-equation-34"].margin_of({"p": p, "q1": q1, "q2": q2}) == pytest.approx(-2.0)


@pytest.mark.parametrize(
    ("name", "margin"),
    [
        ("gr-section-7.1-k", 0.6 - 0.9),
        ("gr-appendix-O-iid", 0.75 - 1.0),
        ("gr-appendix-O-greedy", 1 / 3 - (1 - 0.8**2)),
        ("gr-section-7.2-improvements", 0.45 - 0.47),
        ("gr-appendix-P-speedup", 400000 / 32.81 / 1e5 - 1),
        ("gr-equation-137", -1.0),
        ("gr-section-6-alpha", -1.0),
    ],
)
def test_what_counterexamples_say(name: str, margin: float) -> None:
    counterexample = CLAIMS[name].counterexample
    assert counterexample is not None
    assert CLAIMS[name].margin_of(counterexample) == pytest.approx(margin, abs=1e-12)


def test_slackness_notices_a_set_that_is_no_minimiser() -> None:
    """The shortage of Theorem 5.1 is positive where H is none: here H = {0} costs 0.2 more than H* = {}."""
    instance = {"p": np.array([0.7, 0.3]), "drafts": np.array([[0], [1]]), "law": np.array([0.5, 0.5])}
    assert CLAIMS["gr-theorem-5.1-shortage"].margin_of(instance) >= -1e-15
    wrong = {**instance, "tokens": np.array([1, 0])}
    assert CLAIMS["gr-equation-8"].margin_of(wrong) < -0.01


def test_an_importance_weight_of_no_optimal_flow_misses_the_optimum() -> None:
    claim = CLAIMS["gr-theorem-4.1-any"]
    p, drafts, mass = np.array([0.5, 0.5]), np.array([[0, 1], [0, 0]]), np.array([0.5, 0.5])
    asked = np.array([[1.0, 0.0], [1.0, 0.0]])  # serve token 0 from both: half as much as can be
    assert claim.margin_of({"p": p, "drafts": drafts, "law": mass, "asked": asked}) == pytest.approx(0.0)
