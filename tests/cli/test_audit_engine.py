"""`otspec audit-engine` as a user types it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.cli.test_commands import otspec_command

ENGINE = '''
"""Engines of two tokens, of which the second is too frequent with drafts by `off`."""
import numpy as np


def mine(prompt, count, length, sampling, seed, *, drafts, off=0.0, target=None):
    "Two tokens."
    law = np.array([0.75 - off, 0.25 + off] if drafts else [0.75, 0.25])
    law = np.array([1, 0]) if sampling.greedy else law ** (1 / sampling.temperature)
    return np.random.default_rng((seed, drafts)).choice(2, (count, length), p=law / law.sum())


def dying(prompt, count, length, sampling, seed, drafts):
    raise RuntimeError("no memory")


class Mine:
    name, version, method = "class", "1", "as the function"

    def __init__(self, off=0.0):
        self.off = off

    def texts(self, *request, drafts):
        from otspec.engine_audit import Text
        return [Text(tuple(map(int, one)), "") for one in mine(*request, drafts=drafts, off=self.off)]

    def acceptance(self):
        return None

    def close(self):
        pass
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
    shown = ask("audit-engine", "somebodys_engine:mine", *QUICK, *more)
    assert shown.returncode == status, shown.stderr
    assert said in " ".join(shown.stdout.split())


def test_a_class_of_engines(here: Path, ask: Callable[..., Shown]) -> None:
    shown = ask("audit-engine", "somebodys_engine.py:Mine", *QUICK, "--set", "off=0.2")
    assert shown.returncode == 1, shown.stderr
    assert "class 1; as the function" in shown.stdout


def test_the_result_in_a_file_and_texts_beside_it(here: Path, ask: Callable[..., Shown]) -> None:
    arguments = ("audit-engine", "somebodys_engine.py:mine", *QUICK, "--json", "verdict.json", "--temperature", "1,0.5")
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
        (("tgi",), "no engine 'tgi'; known: http, otspec, transformers, or a function of yours"),
        (("somebodys_engine:mine", "--url", "x"), "mine has no setting 'url'; it has off, target"),
        (("somebodys_engine:Mine", "--url", "x"), "somebodys_engine:Mine has no setting 'url'; it has off"),
        (("somebodys_engine:Mine", "--set", "off"), "--set 'off' is no setting; write name=value"),
        (("somebodys_engine:Yours",), "somebodys_engine has no 'Yours'"),
        (("somebodys_engine:dying",), "dying died at 1 texts of 32 tokens"),
        (("somebodys_engine:Mine", "--alpha", "2"), "alpha is 2.0; it lies between 0 and 1"),
        (("somebodys_engine:Mine", "--prompts", "nowhere.txt"), "there is no file nowhere.txt"),
        (("somebodys_engine:Mine", "--temperature", "-1"), "a temperature is finite and >= 0"),
        (("somebodys_engine:Mine", "--law", "nowhere"), "there is no folder nowhere; pass shipped, or a folder"),
        (("transformers",), "transformers needs the setting 'target'"),
    ],
)
@pytest.mark.usefixtures("here")
def test_bad_input_is_one_sentence(refused: Callable[..., str], arguments: tuple[str, ...], said: str) -> None:
    if arguments[0] == "transformers" or "--law" in arguments:
        pytest.importorskip("torch")
    assert said in refused("audit-engine", *arguments)
