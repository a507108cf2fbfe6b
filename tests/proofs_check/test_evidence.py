"""The search and its evidence, on claims whose truth is plain."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from otspec.errors import ProblemError
from otspec.laws import FloatArray
from otspec.proofs_check import Descent, Exhaustive, Verdict, check, claim
from otspec.proofs_check.evidence import ENOUGH
from otspec.proofs_check.instances import law, pair
from tests.refusals import Refused, check_refused


def least_entry(p: FloatArray, q: FloatArray) -> float:
    """Probabilities are not negative. [otspec]"""
    return float(p.min())


def overlap_above_half(p: FloatArray, q: FloatArray) -> float:
    """Two laws overlap by half. [otspec]

    Instead: They may be disjoint.
    """
    return float(np.minimum(p, q).sum()) - 0.5


TRUE = claim("true", pair)(least_entry)
FALSE = claim("false", pair, counterexample={"p": [1.0, 0.0], "q": [0.0, 1.0]})(overlap_above_half)


def test_a_docstring_has_the_parts_of_a_claim() -> None:
    @claim("hidden", pair, counterexample={"p": [0.5, 0.5], "q": [0.5, 0.5]})
    def hidden(p: FloatArray, q: FloatArray) -> float:
        """Two laws [of two
        tokens] differ. [otspec, [1]]

        Assumption: They are not
        equal.
        Remark: A: B.
        Margin: By total variation.
        """
        return q[0] - 0.5

    found = hidden.statement, hidden.assumption, hidden.remedy, hidden.remark
    assert found == ("Two laws [of two tokens] differ.", "They are not equal.", "", "A: B.")
    assert (hidden.expected, FALSE.expected, TRUE.expected) == (Verdict.HIDDEN, Verdict.FAILS, Verdict.HOLDS)
    assert hidden(**(hidden.counterexample or {})) == 0.0


def test_a_false_claim_is_found_out_with_a_witness_that_replays() -> None:
    evidence = check(FALSE, 50)
    assert evidence.as_expected
    assert FALSE.margin_of(evidence.witness) == evidence.worst < 0
    assert evidence.witness["p"].sum() == pytest.approx(1, abs=1e-12)
    assert all(np.array_equal(evidence.witness[name], np.round(evidence.witness[name], 1)) for name in "pq")


def test_a_witness_is_not_rounded_to_what_is_no_problem() -> None:
    def refuse(p: FloatArray, q: FloatArray) -> float:
        if (np.round(p, 1) == p).all():
            raise ProblemError("p is too coarse")
        return -1.0

    thirds = {"p": np.array([1 / 3, 2 / 3]), "q": np.array([0.5, 0.5])}
    witness = check(replace(FALSE, draw=lambda rng: thirds, margin=refuse, counterexample=thirds), 1).witness
    np.testing.assert_array_equal(witness["p"], [0.33, 0.67])


def test_a_claim_that_is_expected_to_fail_and_does_not_is_no_success() -> None:
    assert not check(replace(FALSE, margin=least_entry), 50).as_expected
    same = {"p": np.array([1.0, 0.0]), "q": np.array([1.0, 0.0])}
    assert not check(replace(FALSE, counterexample=same), 50).as_expected


def test_a_false_claim_is_not_refuted_for_want_of_trials() -> None:
    def rarely(p: FloatArray, q: FloatArray) -> float:
        return -1.0 if p.size == 2 and (p * q == 0).all() else 0.0

    unlucky = replace(FALSE, margin=rarely, draw=lambda rng: {"p": law(rng, 3), "q": law(rng, 3)})
    few, enough = check(unlucky, 50), check(unlucky, ENOUGH)
    assert (few.undecided, few.in_words) == (True, "not refuted in 50 trials")
    assert (enough.undecided, enough.in_words) == (False, "holds: NOT AS EXPECTED")
    same = {"p": np.array([1.0, 0.0]), "q": np.array([1.0, 0.0])}
    assert not check(replace(unlucky, counterexample=same), 50).undecided  # what was known is known no more
    assert not any(check(claim, 50).undecided for claim in (FALSE, TRUE))


def test_a_hidden_assumption_needs_a_counterexample_outside_it() -> None:
    def overlapping(rng: np.random.Generator) -> dict[str, Any]:
        p = law(rng, 3)
        return {"p": p, "q": 0.6 * p + 0.4 * law(rng, 3)}

    hidden = replace(FALSE, draw=overlapping, remedy="", assumption="q is at least 0.6 p")
    evidence = check(hidden, 50)
    assert (evidence.verdict, evidence.as_expected) == (Verdict.HIDDEN, True)


def test_a_margin_that_is_no_number_contradicts() -> None:
    listed = Exhaustive(lambda: [{"n": 1.0}, {"n": math.nan}, {"n": 2.0}])  # not the last, either
    assert check(replace(TRUE, search=listed, margin=lambda n: n), 3).verdict is Verdict.FAILS


def test_the_same_seed_gives_a_claim_the_same_instances() -> None:
    first, again, other = check(FALSE, 9, seed=5), check(FALSE, 9, seed=5), check(TRUE, 9, seed=5)
    np.testing.assert_equal(first.witness, again.witness)
    assert first.worst != other.worst


def test_costly_claims_get_fewer_trials_and_every_claim_gets_one() -> None:
    assert [check(replace(TRUE, cost=cost), 50).trials for cost in (10, 1000)] == [5, 1]


def test_tightness_is_the_largest_ratio_seen() -> None:
    tight = replace(TRUE, tightness=lambda p, q: float(p.max()))
    ratios = [float(tight.draw(np.random.default_rng(i))["p"].max()) for i in range(3)]
    listed = Exhaustive(lambda: (tight.draw(np.random.default_rng(i)) for i in range(3)))
    evidence = check(replace(tight, search=listed), 1)
    assert (evidence.tightest, evidence.trials) == (max(ratios), 3)


def test_descent_finds_a_needle_that_draws_miss() -> None:
    needle = np.array([0.61, 0.29, 0.1])

    def away(p: FloatArray, shift: float) -> float:
        """p stays away from the needle. [otspec]"""
        return float(np.abs(p - needle).sum() + abs(shift - 2.5)) - 1e-3

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        return {"p": rng.dirichlet(np.ones(3)), "shift": rng.normal()}

    needle_like = claim("needle", draw)(away)
    assert check(needle_like, 2000).verdict is Verdict.HOLDS
    found = check(replace(needle_like, search=Descent("p", free="shift")), 2000)
    assert found.verdict is Verdict.FAILS
    assert found.trials <= 2000


def test_descent_moves_truth_values_and_whole_numbers() -> None:
    wanted = np.array([True, False, True, True, False, True, False, False, True, True])

    def off(kept: FloatArray, n: int) -> float:
        return float((kept != wanted).sum() + abs(n - 3)) - 0.5

    def draw(rng: np.random.Generator) -> dict[str, Any]:
        return {"kept": np.zeros(10, dtype=bool), "n": int(rng.integers(1, 9))}

    found = check(replace(TRUE, draw=draw, margin=off, search=Descent(sets="kept", counts="n")), 400)
    assert found.verdict is Verdict.FAILS
    np.testing.assert_array_equal(found.witness["kept"], wanted)
    assert found.witness["n"] == 3


UNEXPLAINED: list[Refused] = [
    (lambda: replace(FALSE, counterexample=None), "goes with a counterexample"),
    (lambda: replace(FALSE, remedy=""), "goes with no counterexample"),
    (lambda: replace(FALSE, assumption="x"), "keep one"),
    (lambda: check(replace(TRUE, search=Descent("p z")), 9), r"Descent moves \['z'\], and instances have p, q alone"),
    (lambda: check(replace(TRUE, margin=lambda p, q: (p >= q).all()), 1), "is (True|False); return right less left"),
]


def test_a_claim_must_explain_itself() -> None:
    check_refused(UNEXPLAINED, ValueError)
