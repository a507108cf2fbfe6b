from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.distinct_drafts import COMPARISONS, MOST_DRAWS, NS, Place, between, distinct, draws_for
from benchmarks.draft_laws import main


def test_distinct_tokens_by_enumeration() -> None:
    for law in ([0.5, 0.3, 0.2], [1.0, 0.0, 0.0], [0.7, 0.3 - 1e-12, 1e-12]):
        q = np.array(law)
        for draws in (1, 2, 4):
            tuples = list(itertools.product(range(3), repeat=draws))
            expected = sum(float(np.prod(q[list(tokens)])) * len(set(tokens)) for tokens in tuples)
            assert distinct(q, draws) == pytest.approx(expected, abs=1e-14)


def test_numbers_of_drafts_that_are_no_integers() -> None:
    place = Place(np.array([0.2, 0.5, 0.3]), np.array([0.6, 0.3, 0.1]))
    assert between(place.iid, 3) == place.iid(3)
    assert between(place.iid, 2.25) == pytest.approx(0.75 * place.iid(2) + 0.25 * place.iid(3))
    for wanted in (1.0, 1.3, place.distinct(2), 2.0, 2.9):
        draws = draws_for(place.distinct, wanted)
        assert between(place.distinct, draws) == pytest.approx(wanted, abs=1e-13)
    assert draws_for(place.distinct, place.distinct(5)) == pytest.approx(5.0, abs=1e-12)
    assert draws_for(Place(np.ones(2) / 2, np.array([1.0, 0.0])).distinct, 2) == MOST_DRAWS


def test_equal_numbers_of_distinct_tokens(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each law is ahead where the other tosses the coin, as docs/draft_laws.md says."""
    pytest.importorskip("torch")
    given = ["draft_laws", "--distinct", "--positions", "96", "--k", "10,V", "--out", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", given)
    main()
    assert {path.name for path in tmp_path.iterdir()} == {"records.jsonl", "report.md"}
    records = [json.loads(line) for line in (tmp_path / "records.jsonl").read_text().splitlines()]
    for k, n in itertools.product((10, 0), NS):
        mine = [record for record in records if (record["k"], record["n"]) == (k, n)]
        assert len(mine) == 96
        assert all(record["without"] >= record["iid"] - 1e-4 for record in mine)  # at equal n; 1e-4 is `release`'s tol
        assert all(1 <= record["distinct"] <= n <= record["draws"] for record in mine)
        gains = {name: np.mean([r[iid] - r[without] for r in mine]) for name, (iid, without) in COMPARISONS.items()}
        assert 0.001 < gains["n i.i.d."] < 0.03
        assert -0.006 < gains["n distinct"] < 0.001
        assert abs(gains["one m"]) < 0.02
