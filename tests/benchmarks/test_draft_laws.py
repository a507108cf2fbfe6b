"""What the driver of draft laws measures, against what is known of optima."""

from __future__ import annotations

from itertools import product

import pytest

from benchmarks.draft_laws import laws, shipped
from benchmarks.draft_laws.grid import MADE_FOR, OPTIMUM, SCHEMES, acceptances
from benchmarks.draft_laws.rules import own_drafts, wrong_drafts
from benchmarks.draft_laws.solving import distinct_drafters, independent_drafters, same_drafter
from otspec.catalogue import get
from otspec.data import open_source

LLAMA3 = open_source("llama3")


def test_no_rule_accepts_more_than_its_draft_law_allows() -> None:
    records = list(acceptances(LLAMA3, 1, laws.KS, laws.NS, laws.SERIES))
    found = {(r["k"], r["n"], r["law"], r["rule"]): r["acceptance"] for r in records}
    assert {rule for *_, rule in found} == {OPTIMUM, *MADE_FOR}
    assert {law for *_, law, _ in found} == SCHEMES.keys()
    for (k, n, law, rule), acceptance in found.items():
        best = found[k, n, "greedy" if law == "hub pairs" else law, OPTIMUM]
        assert 0 < acceptance <= best + 1e-9, (k, n, law, rule)
    assert {(k, n) for k, n, *_ in found} == set(product(laws.KS, laws.NS))


def test_more_drafts_are_worth_more_whatever_their_law() -> None:
    series = [(law, OPTIMUM) for law in shipped.LAWS]
    records = list(acceptances(LLAMA3, 2, (10, 100), shipped.NS, series))
    found = {(r["k"], r["n"], r["law"], r["position"]): r["acceptance"] for r in records}
    assert {(k, n, law) for k, n, law, _ in found} == {
        (k, n, law) for k, n, law in product((10, 100), shipped.NS, shipped.LAWS) if n > 1 or law == "i.i.d."
    }
    for (k, n, law, position), acceptance in found.items():
        if n > 2:
            assert acceptance >= found[k, n - 1, law, position] - 1e-9
    assert all(-1e-9 <= r["bound"] - r["acceptance"] < 1e-3 for r in records)


def test_rules_are_lossless_on_their_own_drafts_only() -> None:
    for record in own_drafts(20):
        assert 0 < record["acceptance"] <= record["membership"] + 1e-12
        assert record["of_own"] <= 1 + 1e-9
    wrong = list(wrong_drafts(20))
    assert max(record["tv"] for record in wrong) > 0.1
    assert all(record["above"] == (record["acceptance"] > record["best"] + 1e-9) for record in wrong)


@pytest.mark.parametrize("solver", ["release", "polymatroid:tol=1e-6"])
def test_plans_for_drafts_without_replacement_are_certified(solver: str) -> None:
    records = list(same_drafter(LLAMA3, 2, [20], [2, 3], get(solver)))
    assert len(records) == 4
    for record in records:
        assert record["deviation"] <= 1e-12
        assert -1e-12 <= record["gap"] < 0.1
        assert record["iid"] <= record["bound"] + 1e-12  # distinct drafts are worth more


def test_steps_close_the_gap_of_distinct_laws() -> None:
    records = list(distinct_drafters(LLAMA3, 2, [20], [3]))
    gaps = {(record["position"], record["max_steps"]): record["gap"] for record in records}
    assert all(record["deviation"] <= 1e-12 and -1e-12 <= record["gap"] < 0.1 for record in records)
    assert all(gaps[position, 300] <= gaps[position, 10] + 1e-12 for position in range(2))


@pytest.mark.parametrize("drafts", ["iid", "temperatures", "noise"])
def test_solvers_of_independent_drafts_agree(drafts: str) -> None:
    records = list(independent_drafters(LLAMA3, 2, 20, 2, drafts, ("luce", "max_flow")))
    assert [(one["solver"], one["position"]) for one in records] == list(product(("luce", "max_flow"), range(2)))
    assert all(abs(one["gap"]) < 1e-5 for one in records)
