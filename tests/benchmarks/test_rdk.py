import json
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import rdk
from otspec.vocab import tli


def test_leaves_records_tables_and_pictures(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("vl_convert")
    out = tmp_path / "out"
    sizes = ["--vocab", "400", "--paper-vocab", "1000", "--seeds", "1", "--contexts", "8"]
    monkeypatch.setattr(sys, "argv", ["script", *sizes, "--out", str(out)])
    rdk.main()
    pictures = {"target.png", "laws.png", "acceptance.png"}
    assert {path.name for path in out.iterdir()} == {"records.jsonl", "report.md", *pictures}
    records = [json.loads(line) for line in (out / "records.jsonl").read_text().splitlines()]
    linear = [record for record in records if record.get("scheme") == "RDK, eq. (3)"]
    assert len(linear) == 4 * (len(rdk.SHARES) + 1)
    assert all(record["distance_to_tli"] <= 2 * record["theta_over_n"] + 1e-14 for record in linear)
    assert "200000" not in (out / "report.md").read_text()


def test_schemes_are_laws_but_for_the_masked_one_which_lost_what_was_pruned() -> None:
    world = rdk.make_world("shared", 300, 8, 0.5, 1)
    kept = rdk.kept_tokens(world, "frequency", 30)
    laws = dict(rdk.drafts(world, kept))
    masked = laws.pop("masked only")
    assert masked.sum() == pytest.approx(world.draft[kept].sum())
    np.testing.assert_allclose(masked / masked.sum(), tli(world.draft, kept), rtol=1e-12)
    for law in laws.values():
        assert law.sum() == pytest.approx(1)
