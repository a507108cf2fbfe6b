"""Whether searches would notice: every claim has mutations, all false, and its search refutes them."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from otspec.laws import FloatArray
from otspec.proofs_check import CLAIMS, Claim, Exhaustive, Mutation, Verdict, challenges, check
from otspec.proofs_check.power import challenge
from otspec.proofs_check.power_report import summary
from tests.each import each
from tests.proofs_check.test_evidence import TRUE

TRIALS = 1000
"""The default of the command."""
SEEDS = (0, 1, 2)
"""A mutation has to be refuted from one of them: searches are stable, not certain, on machines that round otherwise."""
MUTATED = {name: claim for name, claim in CLAIMS.items() if claim.mutations}
SPIKY = Mutation("p stays below 1.", lambda p, q: 0.999 - float(p.max()))


def test_every_claim_that_is_to_hold_has_a_mutation() -> None:
    assert not [name for name, claim in CLAIMS.items() if claim.expected is not Verdict.FAILS and not claim.mutations]


@each(claim=MUTATED)
def test_every_mutation_is_refuted(claim: Claim) -> None:
    for mutation in claim.mutations:
        found = next((seed for seed in SEEDS if challenge(claim, mutation, TRIALS, seed).refuted), None)
        assert found is not None, mutation.statement


def test_a_refuted_mutation_comes_with_its_instance_and_ends_the_search() -> None:
    found = challenge(TRUE, SPIKY, 500, seed=3)
    assert found.refuted
    assert found.trials < 500
    listed = replace(TRUE, search=Exhaustive(lambda: [{"n": math.nan}, {"n": -1.0}]))
    assert challenge(listed, Mutation("", lambda n: n), 2).refuted
    assert SPIKY.margin(**found.witness) == found.worst < 0
    assert summary([found], [TRUE]).endswith(f"so that their searches were not tried: {TRUE.id}.")
    with pytest.raises(KeyError) as raised:
        replace(TRUE, margin=lambda **instance: instance["no"]).margin_of({"n": 3})
    assert raised.value.__notes__ == [f"claim {TRUE.id!r} was evaluated on {{'n': 3}}"]


@pytest.mark.parametrize("margin", [0.0, -5e-12, math.nan], ids=["equality", "rounding", "no number"])
def test_what_is_not_clearly_false_is_not_refuted(margin: float) -> None:
    found = challenge(TRUE, Mutation("", lambda **instance: margin), 5)
    assert (found.refuted, found.trials) == (False, 5)


def test_tightness_is_that_of_the_claim() -> None:
    claim = replace(TRUE, mutations=(SPIKY,), tightness=lambda p, q: float(p.max()))
    (found,) = challenges(claim, 40, seed=1)
    assert (found.tightest, challenges(TRUE, 40)) == (check(claim, 40, seed=1).tightest, [])


def test_the_ratio_leads_where_margins_of_zero_mislead() -> None:
    """Both sides vanish at p = (1, 0, 0): a search for small margins stays there, where the bound says nothing."""

    def sides(p: FloatArray) -> tuple[float, float]:
        rest = float(1 - p[0])
        return rest * float(p[1]), rest * rest

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        return {"p": rng.dirichlet([50.0, 1.0, 50.0])}

    loose = replace(
        CLAIMS["rdk-theorem-5.2-jacobian"],
        id="ratio",
        draw=draw,
        margin=lambda p: sides(p)[1] - sides(p)[0],
        tightness=lambda p: sides(p)[0] / max(sides(p)[1], 1e-300),
        mutations=(),
    )
    found = check(loose, 400)
    assert found.verdict is Verdict.HOLDS
    assert found.tightest is not None
    assert found.tightest > 0.99
