"""`otspec audit` and `otspec audit-engine`: the verdict is the exit status, and a file has it."""

import json
from pathlib import Path

import pytest

from otspec.extras import installed
from tests.cli.running import Otspec

RULES = """
from dataclasses import make_dataclass
import numpy as np, otspec
def naive(p, q, drafts): return p
def first(p, q, drafts):
    return np.eye(p.size)[drafts[0]]
def drawn(p, q, drafts, rng): return int(rng.choice(p.size, p=p))
Rules = type("Rules", (), {"naive": staticmethod(naive)})
solves = {"exact": False, "__call__": lambda self, problem: otspec.solvers.KSeq()(problem)}
Mine = make_dataclass("Mine", [("tol", float, 1e-9)], bases=(otspec.solvers.base.SolverBase,), namespace=solves)
class Joint:
    at = 0.0
    def verify(self, tree, rng):
        law = (1 - self.at) * tree.target[0] + self.at * tree.draft[0]
        return 0, int(rng.choice(law.size, p=law))
Wrong = type("Wrong", (Joint,), {"at": 0.2})
def pairs(q, n): return otspec.HubPairs(q)
def flat(q): return np.full(q.size, 1 / q.size)
"""
ENGINE = '''
"""Engines of two tokens, of which the second is too frequent with drafts by `off`."""
import numpy as np
from otspec.auditing.engines.adapters.function import Function
def mine(prompt, count, length, sampling, seed, *, drafts, off=0.0, target=None):
    "Two tokens."
    law = np.array([0.75 - off, 0.25 + off] if drafts else [0.75, 0.25])
    law = np.array([1, 0]) if sampling.greedy else law ** (1 / sampling.temperature)
    return np.random.default_rng((seed, drafts)).choice(2, (count, length), p=law / law.sum())
class Mine(Function):
    def __init__(self, off=0.0, key=None):
        super().__init__(mine, {"off": off})
'''

VERDICTS = [
    ("rules_of_mine:naive", 0, "LOSSLESS: the output law is p"),
    ("rules_of_mine.py:naive --n 2", 0, "LOSSLESS: the output law is p"),
    ("rules_of_mine:Rules.naive --scheme top_k", 0, "LOSSLESS"),
    ("rules_of_mine:first", 1, "NOT LOSSLESS: the output law is off p by"),
    ("rules_of_mine:first --drafter top_k --n 1", 1, "top_k, declared iid, n = 1"),
    ("rules_of_mine:naive --scheme rules_of_mine:pairs --n 2", 0, "drafts pairs, n = 2"),
    ("rules_of_mine:naive --shown rules_of_mine:flat", 0, "LOSSLESS"),
    ("rules_of_mine:drawn --resolution 0.2", 0, "no evidence of bias"),
    ("rules_of_mine:drawn --budget 3000", 3, "; the resolution takes some "),
    ("rules_of_mine:drawn --max-seconds 1e-9", 3, "INCONCLUSIVE: the 1e-09 s were up before the first look"),
    ("kseq --n 2", 0, "kseq, as plan"),
    ("rules_of_mine:Mine --n 2", 0, "LOSSLESS: the output law is p"),  # a solver that nobody registered
    ("kseq:gamma=2 --n 2", 0, "kseq:gamma=2, as plan"),
    ("rsd", 3, "INCONCLUSIVE: the solver refuses every instance"),
    ("block --branching 2", 0, "LOSSLESS: by stop_law, texts have the target's law"),
    ("kseq --paths 2 --depth 1", 0, "TokenWise, as verifier drafts 2 independent paths of 1 tokens"),
    ("block --depth 1 --shown rules_of_mine:flat", 1, "NOT LOSSLESS: the law of the texts is off by"),
    ("rules_of_mine:Joint --depth 1 --resolution 0.2", 0, "LOSSLESS: no evidence of bias"),
    ("rules_of_mine:Wrong", 1, "REJECTED that each output has law p"),
]
QUICK = "--prompt a --texts 1500 --length 2 --greedy-length 2"
ENGINE_VERDICTS = [
    ("engine_of_mine:mine --set off=False", 0, "NO EVIDENCE: 1,500 texts show none, and the control was caught at"),
    ("engine_of_mine:mine --set off=0.2 --set target=None", 1, "NOT LOSSLESS: "),
    ("engine_of_mine:mine --texts 64", 3, "CANNOT TELL: nothing was found, but 64 texts do not suffice"),
    ("engine_of_mine:mine --temperature 0", 3, "CANNOT TELL: only greedy text was asked for"),
    # The control, as the verdict stands before it is caught.
    ("engine_of_mine.py:Mine --set off=0.5", 1, " not needed: "),
]


@pytest.fixture(autouse=True)
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of rules and one of engines."""
    (tmp_path / "rules_of_mine.py").write_text(RULES)
    (tmp_path / "engine_of_mine.py").write_text(ENGINE)
    (tmp_path / "lacking.py").write_text("import no_such_engine")
    monkeypatch.syspath_prepend(tmp_path)


def test_the_verdict_on_a_rule_is_the_exit_status(otspec: Otspec) -> None:
    for words, status, shown in VERDICTS:
        assert shown in otspec(f"audit {words} --json audit.json", status).out, words
        assert json.loads(Path("audit.json").read_text())["verdict"] in ("lossless", "not lossless", "inconclusive")


def test_the_verdict_on_an_engine_is_the_exit_status(otspec: Otspec) -> None:
    for words, status, shown in ENGINE_VERDICTS:
        engine, _, more = words.partition(" ")
        assert shown in otspec(f"audit-engine {engine} {QUICK} {more}", status).out, words


def test_the_result_in_a_file_and_texts_beside_it(otspec: Otspec) -> None:
    line = f"audit-engine engine_of_mine.py:Mine {QUICK} --json verdict.json --temperature 1,0.5 --set key=secret"
    first = otspec(line)
    verdict, texts = json.loads(Path("verdict.json").read_text()), Path("verdict.json.texts.jsonl")
    assert verdict["verdict"] == "no evidence"
    assert {place["sampling"] for place in verdict["places"]} == {"T = 1", "T = 0.5"}
    assert "secret" not in texts.read_text()
    size = texts.stat().st_size
    assert (otspec(line).out, texts.stat().st_size) == (first.out, size)
    refused = otspec(f"{line} --seed 1", 2).err
    assert "verdict.json.texts.jsonl has the texts of another audit, with other seed" in refused


WRONG = [
    ("audit rules_of_mine:naive --json rules_of_mine.py", "--json rules_of_mine.py would be written over what is read"),
    ("audit-engine engine_of_mine.py:mine --json engine_of_mine.py", "would be written over what is read"),
    ("audit kseq2", "'kseq2' is no solver and names no function; write module:function"),
    ("audit kseq:gamma=half", "gamma takes float"),
    ("audit nowhere:rule", "there is no module nowhere, here or installed"),
    ("audit nowhere.py:rule", "there is no file nowhere.py"),
    ("audit-engine lacking.py:mine", "lacking.py imports no_such_engine, which is not installed"),
    ("audit rules_of_mine:last", "rules_of_mine has no 'last'"),
    ("audit rules_of_mine:np", "pass a callable, or the name of a solver"),
    ("audit nested --n 3", "--n and a rule for paths: drafts are paths here; shape them by --paths and --depth"),
    ("audit block --branching 2 --paths 2", "--branching and --paths: both set the shape of the drafts"),
    ("audit rules_of_mine:naive --paths 2", "for the drafts of one position; audit it without paths"),
    ("audit rules_of_mine:naive --max-seconds 0", "'--max-seconds': 0; it is above 0"),
    ("audit-engine engine_of_mine:Mine --set off", "--set 'off' is no setting; write name=value"),
    ("audit-engine engine_of_mine:Mine --prompts nowhere.txt", "there is no file nowhere.txt"),
    ("audit-engine engine_of_mine:Mine --law nowhere", "there is no folder nowhere; pass shipped, or a folder"),
]


def test_wrong_input_is_one_clear_error(otspec: Otspec) -> None:
    for words, message in WRONG:
        if installed("torch") or not words.endswith("--law nowhere"):
            assert message in otspec(words, 2).err, words
