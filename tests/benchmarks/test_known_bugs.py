"""The tables of known bugs and of lossy rules, a line of each."""

from __future__ import annotations

from benchmarks import known_bugs, lossy_rules
from otspec.auditing.known_bugs import KNOWN_BUGS


def test_a_line_says_what_betrays_a_rule() -> None:
    bug = next(one for one in KNOWN_BUGS if one.name == "a coin that is 0")
    line = known_bugs.row(bug, seeds=1, budget=2_000)
    assert len(line) == len(known_bugs.HEADER)
    assert line[3:] == ("1 of 1", "1,400 (1,400)", "tokens of p = 0", "lossless")
    assert line[2].endswith("(1)")  # disjoint laws


def test_a_line_says_what_acceptance_costs() -> None:
    name, accepted, best, tv, text_tv, *_ = lossy_rules.row("lenience 0.5", models=1, vocab=3, length=2, positions=1)
    assert name == "lenience 0.5"
    assert abs(float(accepted) - float(best) - float(tv)) <= 0.002
    assert float(text_tv) >= float(tv) > 0
