from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from benchmarks.decode_host import drafted, main  # noqa: E402
from otspec.verification.trees.shape import Shape  # noqa: E402


def test_trees_have_drafts_of_the_laws_that_they_come_with() -> None:
    step = drafted(Shape((3, 1, 2)), 500, 7, 0, torch.device("cpu"))
    (tree,) = step.drafts.trees
    assert step.target.shape == (tree.size, 500)
    assert step.drafts.laws.shape == (tree.inner, 500)
    assert ((step.drafts.laws > 0).sum(dim=-1) == 7).all()
    np.testing.assert_allclose(step.target.sum(dim=-1), 1.0, rtol=1e-12)
    assert (step.drafts.laws.numpy()[tree.parent[1:], tree.token[1:]] > 0).all()


def test_leaves_a_record_for_every_truncation_and_rule(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked = ["--vocab", "300", "--top-k", "5,20", "--rules", "nested,interval", "--depth", "2", "--steps", "1"]
    monkeypatch.setattr(sys, "argv", ["decode_host", *asked, "--out", str(tmp_path)])
    main()
    assert (tmp_path / "records.jsonl").read_text().count("\n") == 4
    assert "| 20 | interval |" in (tmp_path / "report.md").read_text()
