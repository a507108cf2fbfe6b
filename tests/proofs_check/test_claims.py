"""Every claim at a small number of trials: what we expect of it is what the search finds."""

import json
from itertools import chain

import numpy as np
import pytest

from otspec.proofs_check import SOURCES, Claim, Verdict, check, from_plain, plain
from tests.each import each

CLAIMS = tuple(chain.from_iterable(source.claims for source in SOURCES))
BY_NAME = {claim.id: claim for claim in CLAIMS}
TRIALS = 30
RARE = 240
"""For claims that fail: the rarest counterexamples are met once in a hundred trials."""


def test_every_claim_has_a_name_of_its_own() -> None:
    assert len(BY_NAME) == len(CLAIMS)


def test_a_variant_names_the_claim_or_the_passage_that_it_stands_beside() -> None:
    cited = {source.cite for source in SOURCES}
    for claim in CLAIMS:
        if claim.variant_of:
            place = claim.variant_of
            assert place in BY_NAME or place.split(",")[0] in cited, claim.id
            assert place not in BY_NAME or not BY_NAME[place].variant_of, claim.id


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.id)
def test_the_search_says_what_we_expect(claim: Claim) -> None:
    evidence = check(claim, RARE if claim.expected is Verdict.FAILS else TRIALS, seed=1)
    assert evidence.verdict is claim.expected, (evidence.worst, evidence.witness)
    assert evidence.as_expected, evidence.counterexample


@each(claim=BY_NAME)
def test_an_instance_survives_json(claim: Claim) -> None:
    instance = claim.draw(np.random.default_rng(2))
    back = from_plain(json.loads(json.dumps(plain(instance))))
    np.testing.assert_equal(claim.margin_of(back), claim.margin_of(instance))


def test_rounding_in_a_linear_program_contradicts_nothing() -> None:
    p = np.array([0.07203636353929123, 0.10310562753285585, 0.6653632100185268, 0.15949479890932608])
    q = np.array([0.9999999999993325, 4.4339830884707874e-14, 5.715707954531811e-14, 5.658570669472335e-13])
    assert BY_NAME["gr-appendix-A"].margin_of({"p": p, "q": q}) > -1e-12
