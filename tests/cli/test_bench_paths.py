"""`otspec record --paths` and `otspec bench paths`."""

from pathlib import Path

import pytest

from otspec.data import TreeSource
from tests.cli.running import Otspec, Pair, lines_of
from tests.data.tree_files import drawn_trees, write_trees

pytest.importorskip("polars")


def test_rules_are_compared_on_recorded_trees(otspec: Otspec, monkeypatch: pytest.MonkeyPatch) -> None:
    write_trees(Path("t.safetensors"), drawn_trees(8), prompts=8)
    write_trees(Path("u.safetensors"), drawn_trees(3, paths=3, depth=1))
    line = "bench paths --solver nested,block --data t.safetensors,u.safetensors"
    assert "t.safetensors: K = 2, L = 2" in otspec(f"{line} --out all").out
    files = {".lock", "report.md", "results.jsonl", "results.parquet", "run.json"}
    drawn = {"report.html", "report.png", "recordings.png"}
    assert {path.name for path in Path("all").iterdir()} == files | drawn
    assert len(lines_of("all/results.jsonl")) == (8 + 3) * 2
    assert "over nested" in Path("all/report.md").read_text()  # the first, as interval is not among them
    log = Path("all/results.jsonl").read_text()
    assert "Nothing was left to measure" in otspec(f"{line} --out all").out
    assert Path("all/results.jsonl").read_text() == log

    write_trees(Path("theirs.safetensors"), drawn_trees(5), prompts=5, about={"target": ["their-7B"]})
    monkeypatch.setattr("otspec.reporting.pictures.Picture.save", lambda *_: None)
    otspec("bench paths --solver nested,block --data theirs.safetensors --out theirs")
    assert "accepted tokens B/A" in otspec(f"{line} --out all --beside theirs --against all").out
    assert "| rule | t.safetensors | u.safetensors | theirs.safetensors |" in Path("all/report.md").read_text()
    assert Path("all/results.jsonl").read_text() == log

    for words, message in (
        (f"{line} --out new --seed 1 --beside all", "new and all are not of one run: seed is 1 in the"),
        (f"{line} --out all --seed 1", "all holds another run: its seed is 0, yours 1"),
        (f"{line} --reference interval", "'interval' is not among the rules of this run, nested, block"),
        ("bench paths --data nowhere.safetensors", "there is no file nowhere.safetensors"),
        ("bench paths --data all", "all holds no recorded trees; record some with otspec record --paths K --depth L"),
    ):
        assert message in otspec(words, 2).err, words
    assert not Path("new").exists()


def test_what_is_recorded_is_what_others_read(otspec: Otspec, saved: Pair, prompts: str) -> None:
    """Trees, positions, and the likeliest tokens of positions alone."""
    line = f"record {saved} {prompts} --positions 4 --max-new-tokens 3"
    said = otspec(f"{line} --paths 2 --depth 3 --out t.safetensors").out
    assert "4 trees of 2 x 3 tokens, laws of all tokens, V = 300" in said
    source = TreeSource("t.safetensors")
    assert (len(source), source.paths, source.depth) == (4, 2, 3)
    assert [source.prompt(index) for index in range(4)] == [0, 1, 2, 0]
    assert source.about["target"][0] == saved.target
    assert "trees have both --paths and --depth" in otspec(f"{line} --paths 2 --out u.safetensors", 2).err
    said = otspec(f"{line} --out p.safetensors").out
    assert "4 positions of all tokens, V = 300; one draft is accepted with probability" in said
    assert "4/4 solved" in otspec("solve p.safetensors --n 2 --top-k 10").out
    otspec(f"{line} --top-k 10 --out few.safetensors")
    solve = "solve few.safetensors --n 2 --solver interval"
    otspec(f"{solve} --top-k 10")
    assert "the file has the 10 likeliest drafts" in otspec(solve, 2).err
    refused = otspec("affinity few.safetensors --of logits --out a.safetensors", 2).err
    assert "has the likeliest tokens alone" in refused
