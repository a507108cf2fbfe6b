from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.look_ahead import main, shipped_lines
from otspec.paths import Nested, tree_law
from otspec.paths.shape import Shape
from otspec.paths.walking import Line, length_along
from tests.paths.models import model


def test_lengths_along_texts_of_the_target_have_the_mean_over_drafts() -> None:
    for family, branching in itertools.product(("tiny", "zeros", "tail"), ((2, 1), (2, 2), (1, 2, 1), (3,))):
        laws, shape, depth = model(family, 2, 4), Shape.of(branching), len(branching)
        for rule in (Nested(sigma=0.0), Nested()):
            mean = 0.0
            for text in itertools.product(range(2), repeat=depth):
                target = np.array([laws.target(text[:i]) for i in range(depth)])
                draft = np.array([laws.draft(text[:i]) for i in range(depth)])
                chance = float(np.prod(target[np.arange(depth), list(text)]))
                if chance > 0.0:
                    mean += chance * length_along(rule, Line(target, draft, np.array(text)), shape)
            exact = tree_law(rule, laws, branching).mean_accepted
            assert mean == pytest.approx(exact, abs=1e-12), (family, branching, rule)


def test_a_table_of_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "records.jsonl"
    arguments = ["--texts", "5", "--cells", "tiny:4:2,1", "--settings", "parts=2,grain=0.1 sigma=0", "--out", str(out)]
    monkeypatch.setattr("sys.argv", ["look_ahead", *arguments])
    main()
    records = [json.loads(line) for line in out.read_text().splitlines()]
    assert [record["setting"] for record in records] == ["default", "parts=2,grain=0.1", "sigma=0"]
    assert all(0 < record["accepted"] < 2 for record in records)
    assert records[0]["gain"] == 0
    assert records[2]["gain"] == pytest.approx(records[2]["accepted"] - records[0]["accepted"])
    shown = capsys.readouterr().out
    assert "parts=2,grain=0.1" in shown
    assert "tiny 4" in shown


def test_texts_of_the_shipped_pair() -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    lines = list(shipped_lines(3, 2, batch=2))
    assert len(lines) == 3
    for line in lines:
        assert line.target.shape == line.draft.shape == (2, line.target.shape[1])
        np.testing.assert_allclose(line.target.sum(axis=1), 1.0)
        assert (line.target[[0, 1], line.tokens] > 0).all()
