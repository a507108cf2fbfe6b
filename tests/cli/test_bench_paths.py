"""`otspec record --paths` and `otspec bench paths` as a user types them."""

import json
from pathlib import Path

import pytest

from otspec.data import TreeSource
from otspec.reporting.page import lacking
from tests.cli.test_commands import otspec_command
from tests.data.tree_files import drawn_trees, write_trees

pytest.importorskip("pyarrow")


def test_rules_are_compared_on_recorded_trees(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    write_trees(Path("t.safetensors"), drawn_trees(8), prompts=8)
    write_trees(Path("u.safetensors"), drawn_trees(3, paths=3, depth=1))
    paths = ("bench", "paths", "--data", "t.safetensors,u.safetensors", "--solver", "nested,block")
    assert otspec_command(monkeypatch, *paths, "--out", "all") == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "t.safetensors: K = 2, L = 2" in shown
    files = {".lock", "report.md", "results.jsonl", "results.parquet", "run.json"}
    drawn = {"report.html", "report.png", "recordings.png"}  # which take an extra
    assert {path.name for path in Path("all").iterdir()} - drawn == files
    if lacking() is None:
        page = Path("all/report.html").read_text()
        assert all(f"Reach: {data}" in page for data in ("t.safetensors", "u.safetensors"))
    lines = [json.loads(line) for line in Path("all/results.jsonl").read_text().splitlines()]
    assert len(lines) == (8 + 3) * 2
    report = Path("all/report.md").read_text()
    assert "over nested" in report  # the first, as interval is not among them
    assert report.count("## Reach") == 2
    log = Path("all/results.jsonl").read_text()
    assert otspec_command(monkeypatch, *paths, "--out", "all") == 0
    assert "Nothing was left to measure" in capsys.readouterr().out
    assert Path("all/results.jsonl").read_text() == log

    write_trees(Path("theirs.safetensors"), drawn_trees(5), prompts=5, about={"target": ["their-7B"]})
    with monkeypatch.context() as patch:
        patch.setattr("otspec.reporting.pictures.Picture.save", lambda *_: None)
        assert otspec_command(monkeypatch, *paths[:3], "theirs.safetensors", *paths[4:], "--out", "theirs") == 0
        assert otspec_command(monkeypatch, *paths, "--out", "all", "--beside", "theirs", "--against", "all") == 0
    table = Path("all/report.md").read_text()
    assert "| rule | t.safetensors | u.safetensors | theirs.safetensors |" in table
    assert "| theirs.safetensors | their-7B | - | otspec |" in table
    assert Path("all/results.jsonl").read_text() == log
    compared = " ".join(capsys.readouterr().out.split())
    assert "t.safetensors, K = 2, L = 2" in compared
    assert "accepted tokens B/A" in compared

    for words, message in (
        (
            (*paths, "--out", "new", "--seed", "1", "--beside", "all"),
            "new and all are not of one run: seed is 1 in the",
        ),
        ((*paths, "--out", "all", "--seed", "1"), "all holds another run: its seed is 0, yours 1"),
        ((*paths, "--reference", "interval"), "'interval' is not among the rules of this run, nested, block"),
        ((*paths[:3], "nowhere.safetensors"), "there is no file nowhere.safetensors"),
        ((*paths[:3], "all/results.jsonl"), "holds no trees of ours; record trees with otspec record --paths K"),
        ((*paths[:4], "--solver", "nestled"), "no solver 'nestled'"),
        (("solve", "t.safetensors"), "t.safetensors holds recorded trees, not positions"),
        ((*paths[:3], "all"), "all holds no recorded trees; record some with otspec record --paths K --depth L"),
    ):
        assert otspec_command(monkeypatch, *words) == 2, words
        assert message in " ".join(capsys.readouterr().err.replace("│", " ").split()), words
    assert not Path("new").exists()


def test_trees_are_recorded(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    pytest.importorskip("torch")
    from tests.saved_pair import save

    target, draft = save(tmp_path)
    monkeypatch.chdir(tmp_path)
    Path("prompts.txt").write_text("def f(x):\nimport os\n")
    models = ("--target", str(target), "--draft", str(draft), "--prompts", "prompts.txt")
    record = ("record", *models, "--positions", "4", "--max-new-tokens", "3")
    assert otspec_command(monkeypatch, *record, "--paths", "2", "--depth", "3", "--out", "t.safetensors") == 0
    assert "4 trees of 2 x 3 tokens, laws of all tokens, V = 300" in " ".join(capsys.readouterr().out.split())
    source = TreeSource("t.safetensors")
    assert (len(source), source.paths, source.depth, source.prompt(3)) == (4, 2, 3, 1)
    assert source.about["target"][0] == str(target)
    assert otspec_command(monkeypatch, *record, "--paths", "2", "--out", "u.safetensors") == 2
    assert "trees have both --paths and --depth" in " ".join(capsys.readouterr().err.split())
