"""`otspec audit` as a user types it."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.test_commands import otspec_command

RULES = '''
"""Two rules, a drafter and a q."""
import numpy as np
import otspec


def naive(p, q, drafts):
    return p


def first(p, q, drafts):
    law = np.zeros(p.size)
    law[drafts[0]] = 1.0
    return law


def drawn(p, q, drafts, rng):
    return int(rng.choice(p.size, p=p))


class Rules:
    naive = staticmethod(naive)


def pairs(q, n):
    return otspec.HubPairs(q)


def flat(q):
    return np.full(q.size, 1 / q.size)
'''


@pytest.fixture
def here(importable: Callable[[str, str], Path]) -> Path:
    """A working directory with a module of rules."""
    return importable("somebodys_rules.py", RULES)


VERDICTS = [
    (("somebodys_rules:naive",), 0, "LOSSLESS: the output law is p"),
    (("somebodys_rules.py:naive", "--n", "2"), 0, "LOSSLESS: the output law is p"),
    (("somebodys_rules:Rules.naive", "--scheme", "top_k"), 0, "LOSSLESS"),
    (("somebodys_rules:first",), 1, "NOT LOSSLESS: the output law is off p by"),
    (("somebodys_rules:first", "--drafter", "top_k", "--n", "1"), 1, "top_k, declared iid, n = 1"),
    (("somebodys_rules:naive", "--scheme", "somebodys_rules:pairs", "--n", "2"), 0, "drafts       pairs, n = 2"),
    (("somebodys_rules:naive", "--shown", "somebodys_rules:flat"), 0, "LOSSLESS"),
    (("somebodys_rules:drawn", "--resolution", "0.2"), 0, "no evidence of bias"),
    (("somebodys_rules:drawn", "--budget", "3000"), 3, "INCONCLUSIVE: after 2"),
    (("somebodys_rules:drawn", "--max-seconds", "1e-9"), 3, "INCONCLUSIVE: the 1e-09 s were up before the first look"),
    (("kseq", "--n", "2"), 0, "kseq, as plan"),
    (("kseq:gamma=2", "--n", "2"), 0, "kseq:gamma=2, as plan"),
    (("rsd",), 3, "INCONCLUSIVE: the solver refuses every instance"),
]


def test_the_verdict_is_the_exit_status(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = here / "audit.json"
    for arguments, status, shown in VERDICTS:
        assert otspec_command(monkeypatch, "audit", *arguments, "--json", str(out)) == status, arguments
        assert shown in capsys.readouterr().out, arguments
        assert json.loads(out.read_text())["verdict"] in ("lossless", "not lossless", "inconclusive"), arguments


WRONG = [
    (("kseq2",), "'kseq2' is no solver and names no function; write module:function"),
    (("kseq:gamma=half",), "gamma takes float"),
    (("nowhere:rule",), "there is no module nowhere, here or installed"),
    (("nowhere.py:rule",), "there is no file nowhere.py"),
    (("somebodys_rules:last",), "somebodys_rules has no 'last'"),
    (("somebodys_rules:np",), "pass a callable, or the name of a solver"),
    (("somebodys_rules:naive", "--scheme", "topk"), "no draft law 'topk'; known: iid"),
    (("somebodys_rules:naive", "--form", "numpy"), "form is 'numpy'; known: rng"),
    (("somebodys_rules:naive", "--max-seconds", "0"), "max_seconds is 0.0; it is above 0 and below"),
]


def test_wrong_input_is_one_clear_error(here: Path, refused: Callable[..., str]) -> None:
    for arguments, message in WRONG:
        assert message in refused("audit", *arguments), arguments
