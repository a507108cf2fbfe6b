"""`otspec tune` and `otspec decode --settings` as a user types them, on a tiny random pair."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from otspec.decode import Tuned  # noqa: E402
from otspec.decode.pair.loading import load_models  # noqa: E402
from otspec.decode.tuning.identity import machine  # noqa: E402
from otspec.decode.tuning.tuned import Mark  # noqa: E402
from tests.cli.test_commands import otspec_command  # noqa: E402


def settings_of(saved: tuple[str, ...], method: str, **settings: object) -> Tuned:
    """A file's settings for the pair, at temperature 1 on this machine."""
    models = load_models(saved[1], saved[3], "cpu")
    assert models.draft is not None
    marks = Mark.of(saved[1], models.target), Mark.of(saved[3], models.draft)
    return Tuned(method, settings, "by hand", *marks, {"temperature": 1.0}, machine(models.target))


def test_tuning_writes_settings_that_decode_takes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], saved: tuple[str, ...], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("prompts.txt").write_text("def f(x):\nimport os\n")
    small = ("--paths", "1,2", "--depth", "3", "--draft-top-k", "9", "--max-new-tokens", "16", "--seconds", "0.2")
    arguments = (*saved, "--prompts", "prompts.txt", *small, "--temperature", "0.9", "--json", "all.json")
    assert otspec_command(monkeypatch, "tune", *arguments) == 0
    shown = capsys.readouterr().out
    tuned = Tuned.load("settings.json")
    assert tuned.sampling == {"temperature": 0.9}
    assert (tuned.target.name, tuned.draft.name) == (saved[1], saved[3])
    for part in ("Passes", "Predicted", "Measured", "plain decoding", "nested, K = 2", f"Chosen: {tuned.why}"):
        assert part in shown, part
    record = json.loads(Path("all.json").read_text())
    assert record["tuned"]["why"] == tuned.why
    assert len(record["predicted"]) == 1 + 6 * 3
    decode = ("decode", *saved, "--prompt", "import", "--settings", "settings.json", "--max-new-tokens", "6")
    assert otspec_command(monkeypatch, *decode, "--temperature", "0.9") == 0
    told = capsys.readouterr()
    assert f"{tuned.method} (" in told.out if tuned.settings else "vanilla, lossless" in told.out
    assert "tuned for something else" not in told.err
    paced = ("decode", *saved, "--prompt", "import", "--max-new-tokens", "6")
    assert otspec_command(monkeypatch, *paced, "--pace", "settings.json") == 0
    assert "multi-draft (pace settings.json), lossless" in capsys.readouterr().out
    assert otspec_command(monkeypatch, *paced, "--pace", "none.json") == 2
    assert "there is no file none.json" in " ".join(capsys.readouterr().err.split())


def test_decoding_by_a_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], saved: tuple[str, ...], tmp_path: Path
) -> None:
    path, out = tmp_path / "settings.json", tmp_path / "out.jsonl"
    decode = ("decode", *saved, "--prompt", "import", "--settings", str(path), "--max-new-tokens", "6")
    settings_of(saved, "multi-draft", paths=2, depth=3, draft_top_k=9).save(path)
    assert otspec_command(monkeypatch, *decode, "--json", str(out)) == 0
    (line,) = (json.loads(text) for text in out.read_text().splitlines())
    assert {"method": "multi-draft", "paths": 2, "depth": 3, "draft_top_k": 9, "tokens": 6}.items() <= line.items()
    assert "tuned for something else" not in capsys.readouterr().err
    assert otspec_command(monkeypatch, *decode, "--temperature", "0") == 0
    assert "tuned for something else: temperature 0.0 (it was 1.0)" in " ".join(capsys.readouterr().err.split())
    settings_of(saved, "vanilla").save(path)
    assert otspec_command(monkeypatch, *decode, "--json", str(out)) == 0
    (line,) = (json.loads(text) for text in out.read_text().splitlines())
    assert (line["method"], line["draft"], line["target_calls"], line["offered"]) == ("vanilla", None, 6, [])
    other = ("decode", "--prompt", "import", "--settings", str(path), "--max-new-tokens", "6")
    assert otspec_command(monkeypatch, *other) == 2
    assert "tuned for the target" in " ".join(capsys.readouterr().err.split())


BAD = [
    (("tune", "--seconds", "0"), "'--seconds': 0 s; grant the measurement some time"),
    (("tune", "--paths", "0"), "'0' is not a positive number"),
    (("tune", "--drafter", "fr:64"), "--drafter fr:64 is settings of a draft model"),
    (("tune", "--prompts", "nowhere.txt"), "there is no file nowhere.txt"),
    (("tune", "--target", "other/model"), "no prompts for other/model; pass --prompts FILE"),
    (("tune", "--out", "nowhere/x"), "'--out': there is no folder nowhere"),
    (("tune", "--max-new-tokens", "9"), "max_new_tokens is 9; texts of fewer than 16 tokens"),
    (("decode", "--prompt", "a", "--settings", "nowhere.json"), "there is no file nowhere.json; `otspec tune --out"),
    (("decode", "--prompt", "a", "--settings", "x.json", "--draft-top-k", "2"), "leave out --draft-top-k"),
    (("decode", "--prompt", "a", "--settings", "x.json", "--method", "block"), "leave out --method"),
]


def test_bad_input_is_one_clear_error(refused: Callable[..., str], tmp_path: Path) -> None:
    for arguments, message in BAD:
        assert message in refused(*arguments), arguments
    assert not list(tmp_path.iterdir())
