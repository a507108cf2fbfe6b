"""`otspec selector`, and `otspec decode` with what it made, as a user types them, on a tiny random pair."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("tokenizers")

from otspec.decode import Selector  # noqa: E402
from tests.cli.test_commands import otspec_command  # noqa: E402

SMALL = ("--menu", "1,1/2,1", "--max-new-tokens", "12", "--positions", "40", "--temperature", "0.8,1")


def test_decoding_by_a_selector(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], saved: tuple[str, ...], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("prompts.txt").write_text("def f(x):\nimport os\nfor x in\n")
    made = ("selector", *saved, "--prompts", "prompts.txt", "--out", "selector.json", *SMALL)
    assert otspec_command(monkeypatch, *made) == 0
    assert "Wrote selector.json: 2 shapes, learnt from" in capsys.readouterr().out
    selector = Selector.load("selector.json")
    assert list(selector.menu) == [(1, 1), (2, 1)]
    assert selector.about["temperatures"] == [0.8, 1.0]
    decode = (
        "decode",
        *saved,
        "--prompt",
        "import",
        "--max-new-tokens",
        "9",
        "--pace",
        "goodput",
        "--json",
        "out.jsonl",
    )
    assert otspec_command(monkeypatch, *decode, "--selector", "selector.json") == 0
    assert "multi-draft (pace goodput, selector selector.json), lossless" in capsys.readouterr().out
    line = json.loads(Path("out.jsonl").read_text())
    assert (line["selector"], line["tokens"]) == ("selector.json", 9)
    assert otspec_command(monkeypatch, *decode, "--menu", "1,1,1/3") == 0
    assert "multi-draft (pace goodput, menu 1,1,1/3), lossless" in capsys.readouterr().out
    copies = ("decode", *saved[:2], "--prompt", "import", "--max-new-tokens", "9", "--method", "prompt-lookup")
    assert otspec_command(monkeypatch, *copies, "--pace", "goodput", "--menu", "1,1/2,1") == 0
    assert "prompt-lookup (pace goodput, menu 1,1/2,1), lossless" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("decode", "--prompt", "a", "--selector", "s.json"),
            "--selector says how a pace chooses; pass --pace goodput",
        ),
        (("decode", "--prompt", "a", "--pace", "goodput", "--selector", "s.json"), "there is no file s.json"),
        (("decode", "--prompt", "a", "--menu", "1,1"), "menu is what a pace chooses among"),
        (("decode", "--prompt", "a", "--pace", "goodput", "--menu", "1,x"), "--menu"),
        (("selector", "--out", "s.json", "--temperature", "0"), "temperatures are [0.0]"),
    ],
    ids=str,
)
def test_what_is_refused(
    refused: Callable[..., str], saved: tuple[str, ...], arguments: tuple[str, ...], message: str
) -> None:
    more = ("--prompts", "a.py") if arguments[0] == "selector" else ()
    assert message in refused(*arguments, *saved, *more)
