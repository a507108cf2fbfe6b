"""Sweeps in parts: `otspec bench --shard`, `otspec merge` and `otspec compare` as a user types them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from otspec.bench.records import KEY
from otspec.reporting.page import DRAWING, lacking
from otspec.reporting.pictures import Picture
from tests.cli.test_commands import otspec_command

pytest.importorskip("pyarrow")


@pytest.fixture(scope="module")
def positions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of four positions over 50 tokens."""
    rng = np.random.default_rng(0)
    target = rng.normal(scale=2, size=(4, 50))
    path = tmp_path_factory.mktemp("data") / "positions.npz"
    np.savez(path, target_logits=target, draft_logits=target + rng.normal(size=(4, 50)))
    return path


def lines_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]


def keys(folder: Path) -> list[tuple[Any, ...]]:
    return [tuple(line.get(name) for name in KEY) for line in lines_of(folder)]


def test_shards_are_merged_and_compared(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], positions: Path, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    cells = ("--k", "5,V", "--n", "2", "--solver", "interval,kseq", "--positions", "4", "--data", str(positions))
    with monkeypatch.context() as patch:
        patch.setattr(Picture, "save", lambda *_: None)  # which takes longer than all the rest
        for part in ("1/2", "2/2"):
            assert otspec_command(monkeypatch, "bench", *cells, "--shard", part, "--out", part[0]) == 0
    assert len(keys(Path("1"))) == len(keys(Path("2"))) == 8
    capsys.readouterr()
    assert otspec_command(monkeypatch, "merge", "2", "1", "1", "--out", "all") == 0
    told = capsys.readouterr()
    assert told.err == ""
    assert "16 records" in told.out
    assert len(set(keys(Path("all")))) == len(keys(Path("all"))) == 16
    report = Path("all/report.md").read_text()
    assert report.count("otspec bench --k 5,V") == 2
    assert report.count("| 4/4 |") == 4
    pictures = set() if lacking(DRAWING) else {"report.png", "lines.png"}
    assert {"results.parquet", *pictures} <= {path.name for path in Path("all").iterdir()}

    monkeypatch.setattr(Picture, "save", lambda *_: None)
    assert otspec_command(monkeypatch, "bench", *cells, "--out", "all") == 0
    assert "Nothing was left to measure" in capsys.readouterr().out
    about = json.loads(Path("1/run.json").read_text())
    shutil.copytree("1", "other")
    Path("other/run.json").write_text(json.dumps(about | {"processor": "abacus"}))
    assert otspec_command(monkeypatch, "merge", "other", "2", "--out", "both") == 0
    assert "different machines: processor is" in capsys.readouterr().err
    assert "abacus" in Path("both/report.md").read_text()
    assert otspec_command(monkeypatch, "merge", "1", "--out", "half") == 0
    assert "note: no folder is of shard 2/2" in capsys.readouterr().err
    assert otspec_command(monkeypatch, "compare", "other", "all", "--json", "c.json", "--markdown", "c.md") == 0
    told = capsys.readouterr()
    assert "B compared with A" in told.out
    assert "note: they differ in the machine: processor: A abacus, B" in told.err
    found = json.loads(Path("c.json").read_text())
    assert [one["pairs"] for one in found["cells"]] == [2] * 4
    assert {one["time_ms"]["ratio"] for one in found["cells"]} == {1.0}
    assert "| (5, 2) |" not in Path("c.md").read_text()
    assert "| positions.npz (5, 2) | interval | 2 |" in Path("c.md").read_text()
    assert "- they differ in the machine: processor" in Path("c.md").read_text()

    Path("other/run.json").write_text(json.dumps(about | {"seed": 7}))
    for words, message in (
        (("merge", "1", "other", "--out", "new"), "1 and other are not of one run: seed is 0 in the first, 7 in the"),
        (("merge", "nowhere", "--out", "new"), "there is no run in nowhere; name folders that `otspec bench`"),
        (("merge", "1", "--out", str(positions)), "not a benchmark run"),
        (
            ("compare", "1", "2"),
            "1 and 2 have nothing in common that both finished; the first has positions.npz (5, 2)",
        ),
        (("compare", "1", "nowhere"), "there is no run in nowhere"),
        (("compare", "1", "1", "--json", "no/where"), "there is no folder no"),
        (("bench", *cells, "--shard", "3/2", "--out", "new"), "no shard '3/2'; write 1/8 for the first of eight parts"),
    ):
        assert otspec_command(monkeypatch, *words) == 2, words
        assert message in " ".join(capsys.readouterr().err.replace("│", " ").split()), words
        assert not Path("new").exists()


def test_shards_of_decoding(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    pytest.importorskip("torch")
    from tests.saved_pair import save

    target, draft = save(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Picture, "save", lambda *_: None)
    Path("prompts.txt").write_text("def f(x):\nimport os\nclass A:\n")
    cells = ("--paths", "2", "--depth", "2", "--solver", "nested", "--baselines", "generate,assisted")
    more = ("--prompts", "prompts.txt", "--max-new-tokens", "4", "--target", str(target), "--draft", str(draft))
    decode = ("bench", "decode", *cells, *more)
    assert otspec_command(monkeypatch, *decode, "--shard", "1/2", "--out", "1") == 2
    assert "which shards cannot share; name them with --assisted" in " ".join(capsys.readouterr().err.split())
    assert not Path("1").exists()
    chosen = ("--assisted", "5/constant/0.4")
    for part in ("1/2", "2/2"):
        assert otspec_command(monkeypatch, *decode, *chosen, "--shard", part, "--out", part[0]) == 0
    assert otspec_command(monkeypatch, *decode, *chosen, "--out", "whole") == 0
    assert otspec_command(monkeypatch, "merge", "1", "2", "--out", "all") == 0
    measured = {name: (set(keys(Path(name))), len(keys(Path(name)))) for name in ("1", "2", "all", "whole")}
    assert [count for _, count in measured.values()] == [8, 4, 12, 12]
    assert measured["all"] == measured["whole"]
    tokens = [
        {tuple(line[name] for name in KEY if name in line): line["accepted"] for line in lines_of(Path(name))}
        for name in ("all", "whole")
    ]
    assert tokens[0] == tokens[1]
    assert "assisted" in Path("all/report.md").read_text()
    assert otspec_command(monkeypatch, "compare", "all", "whole") == 0
    assert "block efficiency" in capsys.readouterr().out
    for wrong in ("5", "5/constant", "a/constant/0.4", "5/constant/much"):
        assert otspec_command(monkeypatch, *decode, "--assisted", wrong, "--out", "new") == 2
        assert "Traceback" not in capsys.readouterr().err
