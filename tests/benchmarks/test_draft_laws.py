"""What the driver of draft laws measures, against what is known of optima."""

from itertools import product

from benchmarks.draft_laws import laws
from benchmarks.draft_laws.grid import MADE_FOR, OPTIMUM, SCHEMES, acceptances
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
