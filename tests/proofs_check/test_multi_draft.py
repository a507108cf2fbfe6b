from __future__ import annotations

from dataclasses import replace

import pytest

from otspec.problem import Problem
from otspec.proofs_check import MULTI_DRAFT, Claim, check


@pytest.mark.parametrize("claim", MULTI_DRAFT, ids=lambda claim: claim.id)
def test_holds_on_random_instances(claim: Claim) -> None:
    evidence = check(claim, trials=60, seed=1)
    assert evidence.holds, (evidence.worst, evidence.witness)


def test_a_false_claim_is_found_out_with_a_witness_that_replays() -> None:
    def strictly(problem: Problem) -> float:
        """Submodular by a clear margin: false already where A = B."""
        return MULTI_DRAFT[0].margin(problem) - 1e-3

    evidence = check(replace(MULTI_DRAFT[0], margin=strictly), trials=20, seed=1)
    assert not evidence.holds
    assert strictly(evidence.witness) == evidence.worst


def test_a_margin_that_is_no_number_contradicts() -> None:
    assert not check(replace(MULTI_DRAFT[0], margin=lambda problem: float("nan")), trials=3).holds
