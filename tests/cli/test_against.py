"""`--against`: a run compared with another as a user types it."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from otspec.reporting.pictures import Picture
from tests.cli.test_commands import otspec_command

pytest.importorskip("pyarrow")


def test_a_run_is_compared_with_others_while_it_is_measured_and_afterwards(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Picture, "save", lambda *_: None)  # which takes longer than all the rest
    rng = np.random.default_rng(0)
    target = rng.normal(scale=2, size=(4, 50))
    np.savez("p.npz", target_logits=target, draft_logits=target + rng.normal(size=(4, 50)))
    common = ("--n", "2", "--solver", "interval,kseq", "--positions", "4", "--data", "p.npz")
    for k in ("5", "V"):
        assert otspec_command(monkeypatch, "bench", "--k", k, *common, "--out", k) == 0
    about = json.loads(Path("5/run.json").read_text())
    shutil.copytree("5", "other")
    Path("other/run.json").write_text(json.dumps(about | {"processor": "abacus"}))
    parts = ("--against", "other", "--against", "V")
    capsys.readouterr()
    assert otspec_command(monkeypatch, "bench", "--k", "5,V", *common, "--out", "all", *parts) == 0
    told = capsys.readouterr()
    assert "B compared with A" in told.out
    assert "note: they differ in the machine: processor: A [" in told.err
    found = json.loads(Path("all/comparison.json").read_text())
    assert [one["pairs"] for one in found["cells"]] == [4] * 4
    assert {one["acceptance"]["ratio"] for one in found["cells"]} == {1.0}
    assert "| p.npz (5, 2) | interval | 4 |" in Path("all/comparison.md").read_text()

    log = Path("all/results.jsonl").read_text()
    assert otspec_command(monkeypatch, "bench", "--against", "5", "--out", "all") == 0  # measures nothing
    told = capsys.readouterr()
    assert "note: only B has finished p.npz (V, 2) interval, p.npz (V, 2) kseq" in told.err
    assert Path("all/results.jsonl").read_text() == log
    assert "- only B has finished" in Path("all/comparison.md").read_text()
    for words, message in (
        (
            ("--against", "V", "--out", "5"),
            "V and 5 have nothing in common that both finished; the first has p.npz (V, 2)",
        ),
        (("--against", "nowhere", "--out", "5"), "there is no run in nowhere; name folders that `otspec bench`"),
        (("--against", "nowhere", "--out", "new"), "there is no run in nowhere"),
        (("--backend", "slurm", "--out", "new"), "no backend 'slurm'; known: local, dask, ray"),
    ):
        assert otspec_command(monkeypatch, "bench", *words) == 2, words
        assert message in " ".join(capsys.readouterr().err.split()), words
    assert not Path("new").exists()


def test_texts_are_compared(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    pytest.importorskip("torch")
    from tests.saved_pair import save

    target, draft = save(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Picture, "save", lambda *_: None)
    Path("prompts.txt").write_text("def f(x):\nimport os\n")
    cells = ("--paths", "2", "--depth", "2", "--solver", "nested", "--baselines", "generate")
    more = ("--prompts", "prompts.txt", "--max-new-tokens", "4", "--target", str(target), "--draft", str(draft))
    decode = ("bench", "decode", *cells, *more)
    assert otspec_command(monkeypatch, *decode, "--out", "1") == 0
    capsys.readouterr()
    assert otspec_command(monkeypatch, "bench", "decode", "--out", "1", "--against", "1") == 0
    assert "block efficiency" in capsys.readouterr().out
    for wrong in ("5", "5/constant", "a/constant/0.4", "5/constant/much"):
        assert otspec_command(monkeypatch, *decode, "--assisted", wrong, "--out", "new") == 2
        assert "Traceback" not in capsys.readouterr().err
