"""The tables of known bugs and of lossy rules, a line of each."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import known_bugs, lossy_rules
from otspec.auditing.known_bugs import KNOWN_BUGS
from otspec.paths import synthetic


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


def test_recorded_laws_are_priced_with_what_their_file_has() -> None:
    pairs, whole = lossy_rules.recorded_pairs("smollm2", 1)
    assert not whole
    p, q = lossy_rules.merged(*pairs[0])
    assert (p.size, p.sum()) == (lossy_rules.DRAFTED + 1, pytest.approx(1))
    assert np.minimum(p, q).sum() == pytest.approx(np.minimum(*pairs[0]).sum())
    _, accepted, alpha, tv, best, gained = next(
        row for row in lossy_rules.token_table("smollm2", pairs, whole).rows if row[0] == "ensemble 0.5"
    )
    assert (best, gained) == (accepted, "1.000")
    assert float(accepted) == pytest.approx(float(alpha) + float(tv), abs=2e-3)


def test_paths_gain_tokens_by_the_price() -> None:
    model = synthetic("mixed", 50)
    trees = [model.tree(model.sample(1, 3, rng=seed)) for seed in range(4)]
    rows = {name: figures for name, *figures in lossy_rules.path_table("here", trees).rows}
    assert rows["block verification"][1:2] == ["0.000"]
    assert rows["all or block, depth 0.5"][-1] == "1.000"  # L tokens by the price
    assert float(rows["all or block, depth 1"][0]) > float(rows["all or block, depth 0.5"][0])
