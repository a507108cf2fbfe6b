"""`otspec audit-engine` as a user types it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.cli.test_commands import otspec_command

ENGINE = '''
"""Engines of two tokens, of which the second is too frequent with drafts by `off`."""
from otspec.engine_audit.adapters.function import Function


class Mine(Function):
    def __init__(self, off=0.0, drafts=1):
        super().__init__(lambda before: [0.75, 0.25], lambda before: [0.75 - off, 0.25 + off])


class OfModels(Mine):
    def __init__(self, target=None, draft=None):
        super().__init__()


class Dying(Mine):
    def texts(self, *rest, **more):
        raise RuntimeError("no memory")
'''
QUICK = ("--prompt", "a", "--texts", "1500", "--length", "2", "--greedy-length", "2")


class Shown(NamedTuple):
    """What a command left."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Shown]:
    """Run a command, and see what it shows."""

    def run(*arguments: str) -> Shown:
        status = otspec_command(monkeypatch, *arguments)
        return Shown(status, *capsys.readouterr())

    return run


@pytest.fixture
def here(importable: Callable[[str, str], Path]) -> Path:
    return importable("somebodys_engine.py", ENGINE)


@pytest.mark.parametrize(
    ("more", "status", "said"),
    [
        ((), 0, "NO EVIDENCE: 1,500 texts show none, and the control was caught at"),
        (("--set", "off=0.2"), 1, "NOT LOSSLESS: "),
        (("--texts", "64"), 3, "CANNOT TELL: nothing was found, but 64 texts do not suffice"),
        (("--temperature", "0"), 3, "CANNOT TELL: only greedy text was asked for"),
    ],
)
def test_verdict_and_exit_status(
    here: Path, ask: Callable[..., Shown], more: tuple[str, ...], status: int, said: str
) -> None:
    shown = ask("audit-engine", "somebodys_engine:Mine", *QUICK, *more)
    assert shown.returncode == status, shown.stderr
    assert said in " ".join(shown.stdout.split())


def test_the_result_in_a_file_and_texts_beside_it(here: Path, ask: Callable[..., Shown]) -> None:
    arguments = ("audit-engine", "somebodys_engine.py:Mine", *QUICK, "--json", "verdict.json", "--temperature", "1,0.5")
    first = ask(*arguments)
    verdict = json.loads((here / "verdict.json").read_text())
    assert verdict["verdict"] == "no evidence"
    assert {place["sampling"] for place in verdict["places"]} == {"T = 1", "T = 0.5"}
    size = (here / "verdict.json.texts.jsonl").stat().st_size
    again = ask(*arguments)
    assert again.stdout == first.stdout
    assert (here / "verdict.json.texts.jsonl").stat().st_size == size
    other = ask(*arguments, "--seed", "1")
    assert other.returncode == 2
    assert "verdict.json.texts.jsonl has the texts of another audit, with other seed" in other.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("tgi",), "no engine 'tgi'; known: http, openvino"),
        (("somebodys_engine:Mine", "--url", "x"), "somebodys_engine:Mine has no setting 'url'; it has off, drafts"),
        (("somebodys_engine:Mine", "--set", "off"), "--set 'off' is no setting; write name=value"),
        (("somebodys_engine:Yours",), "somebodys_engine has no 'Yours'"),
        (("somebodys_engine:Dying",), "function died at 1 texts of 32 tokens"),
        (("somebodys_engine:Mine", "--alpha", "2"), "alpha is 2.0; it lies between 0 and 1"),
        (("somebodys_engine:Mine", "--prompts", "nowhere.txt"), "there is no file nowhere.txt"),
        (("somebodys_engine:Mine", "--temperature", "-1"), "a temperature is finite and >= 0"),
    ],
)
def test_bad_input_is_one_sentence(
    here: Path, ask: Callable[..., Shown], arguments: tuple[str, ...], said: str
) -> None:
    shown = ask("audit-engine", *arguments)
    assert shown.returncode == 2
    assert said in " ".join(shown.stderr.replace("│", " ").split())
    assert "Traceback" not in shown.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("somebodys_engine:Mine", "--law", "nowhere"), "there is no folder nowhere; pass shipped, or a folder"),
        (("somebodys_engine:Mine", "--draft-law", "nowhere"), "there is no folder nowhere; pass shipped, or a folder"),
        (("somebodys_engine:Mine", "--draft-law", "shipped"), "the law of the drafts is given without that of the"),
        (("transformers",), "transformers needs the setting 'target'"),
    ],
)
def test_bad_models_are_one_sentence(
    here: Path, ask: Callable[..., Shown], arguments: tuple[str, ...], said: str
) -> None:
    pytest.importorskip("transformers")
    test_bad_input_is_one_sentence(here, ask, arguments, said)


def test_a_draft_model_whose_law_nobody_asked_for_may_be_unreadable(here: Path, ask: Callable[..., Shown]) -> None:
    pytest.importorskip("transformers")
    (here / "broken").mkdir()
    (here / "broken" / "config.json").write_text("{}")
    asked = (
        "audit-engine",
        "somebodys_engine:OfModels",
        *QUICK,
        "--texts",
        "32",
        "--draft",
        "broken",
        "--law",
        "shipped",
    )
    shown = ask(*asked)
    assert shown.returncode == 3
    said = " ".join(shown.stdout.split())
    assert "acceptance is not held against the optimum: the draft 'broken' cannot be loaded" in said
    assert ask(*asked, "--draft-law", "none").stdout.count("the optimum") == 0
    assert ask(*asked, "--draft-law", "broken").returncode == 2


def test_acceptance_beside_the_optimum(ask: Callable[..., Shown]) -> None:
    pytest.importorskip("transformers")
    pair = ("--target", "shipped", "--draft", "shipped")
    said = {
        name: " ".join(ask("audit-engine", name, *pair, *QUICK[:2], "--texts", "64", "--length", "2").stdout.split())
        for name in ("otspec", "transformers")
    }
    assert "first drafts after the prompt, 2 tokens at most: " in said["otspec"]
    assert "of 32 texts accept a first draft" in said["otspec"]
    assert "the optimum: transformers does not say how its drafts are drawn" in said["transformers"]
