"""`otspec claims` as a user types it."""

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from otspec.proofs_check import CLAIMS, Mutation, Verdict
from otspec.reporting.console import console
from tests.cli.test_commands import otspec_command


def test_one_claim_in_all_its_forms(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    stored, read = tmp_path / "found.json", tmp_path / "found.md"
    arguments = ("--claim", "hit-*", "--trials", "20", "--json", str(stored), "--markdown", str(read))
    assert otspec_command(monkeypatch, "claims", *arguments) == 0
    assert "hit-submodular" in capsys.readouterr().out
    assert "`hit-submodular`" in read.read_text()
    (source,) = json.loads(stored.read_text())["sources"]
    assert source["claims"][0]["trials"] == 20
    assert otspec_command(monkeypatch, "claims", "--replay", str(stored)) == 0
    assert "margin now" in capsys.readouterr().out


def test_an_unknown_claim_is_an_error_that_names_others(refused: Callable[..., str]) -> None:
    assert "hit-submodular" in refused("claims", "--claim", "hit-submodula")


CUT = '{"sources": [{"claims": [{"id": "hit-submodular", "worst": 0, "witness": "p"}]}]}'


def test_a_file_that_is_not_a_report_is_one_line(refused: Callable[..., str]) -> None:
    broken = Path("broken.json")
    for content in (b"{", b"\x80\x00\xff", b"", b"[" * 100_000):
        broken.write_bytes(content)
        assert "cannot be read as JSON" in refused("claims", "--replay", str(broken))
    for text in ("3", "[]", "null", '{"sources": 3}', '{"sources": [{"claims": [{"id": []}]}]}', CUT):
        broken.write_text(text)
        assert "this is no report of" in refused("claims", "--replay", str(broken))


def test_list_and_show_check_nothing_and_tell_all(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def no_check(*_: object) -> None:
        raise AssertionError("a claim was checked")

    monkeypatch.setattr("otspec.proofs_check.check", no_check)
    monkeypatch.setattr(console, "width", 400)
    assert otspec_command(monkeypatch, "claims", "--list") == 0
    shown = capsys.readouterr().out
    assert f"{len(CLAIMS)} claims" in shown
    assert all(name in shown for name in CLAIMS)
    assert otspec_command(monkeypatch, "claims", "--list", "--claim", "hit-*") == 0
    shown = capsys.readouterr().out
    assert "hit-submodular" in shown
    assert "gr-" not in shown
    for verdict in Verdict:
        claim = next(one for one in CLAIMS.values() if one.expected is verdict)
        assert otspec_command(monkeypatch, "claims", "--show", claim.id) == 0
        shown = capsys.readouterr().out
        for part in (claim.id, claim.statement, claim.source, verdict.value, claim.remedy, claim.assumption):
            assert part in shown, claim.id
        assert ("with margin" in shown) == (verdict is not Verdict.HOLDS), claim.id
    assert otspec_command(monkeypatch, "claims", "--show", "hit-submodula") == 2
    assert "hit-submodular" in capsys.readouterr().err
    assert otspec_command(monkeypatch, "claims", "--show", "hit-submodular", "--list") == 2
    assert "--list and --show are two things to do" in " ".join(capsys.readouterr().err.split())


EXAMPLE = """\
import numpy as np

from otspec.proofs_check import Claim, Descent
from otspec.proofs_check.instances import pair


def margin(p, q):
    return np.minimum(p, q).sum() - p @ q


SURER = "Speculative sampling accepts at least as often as a draft happens to be what the target draws."
CLAIMS = [Claim("surer-than-luck", SURER, "my notes", pair, margin, search=Descent(laws=("p", "q")))]
"""


def test_a_claim_of_ones_own_is_checked_from_its_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "mine", raising=False)  # of another test, from another folder
    Path("mine.py").write_text(EXAMPLE)
    arguments = ("--module", "mine.py", "--trials", "200")
    assert otspec_command(monkeypatch, "claims", *arguments, "--claim", "surer-*", "--json", "found.json") == 0
    shown = capsys.readouterr().out
    assert "1 claim of sources: 1 holds on all that was tried. All as expected." in " ".join(shown.split())
    (source,) = json.loads(Path("found.json").read_text())["sources"]
    assert (source["title"], source["claims"][0]["id"], source["claims"][0]["trials"] > 100) == (
        "mine.py",
        "surer-than-luck",
        True,
    )
    for module in ("mine.py", "mine"):  # by its file, and by its name
        assert otspec_command(monkeypatch, "claims", "--module", module, "--replay", "found.json") == 0
        assert "surer-than-luck" in capsys.readouterr().out
    assert otspec_command(monkeypatch, "claims", "--replay", "found.json") == 2
    assert "--module" in capsys.readouterr().err
    assert otspec_command(monkeypatch, "claims", "--module", "mine.py", "--show", "surer-than-luck") == 0
    assert "my notes" in capsys.readouterr().out
    assert otspec_command(monkeypatch, "claims", "--module", "mine.py", "--claim", "gr-*") == 2
    assert "surer-than-luck" in capsys.readouterr().err


def test_claims_need_no_list_and_a_false_one_is_news(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    named = EXAMPLE.replace("CLAIMS = [", "named = (").replace("))]", ")))").replace("- p @ q", "- 0.5")
    mine = tmp_path / "named_alone.py"
    mine.write_text(named)
    assert otspec_command(monkeypatch, "claims", "--module", str(mine), "--trials", "200") == 1
    assert "Not as expected: surer-than-luck" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has no claims; give it a list CLAIMS"),
        ("CLAIMS = []", "has no claims"),
        ("CLAIMS = 3", "CLAIMS of mine.py is 3; make it a list"),
        ("CLAIMS = ['surer']", "holds 'surer', which is no otspec.proofs_check.Claim; make it one"),
        ("{example}\nCLAIMS = 2 * CLAIMS", "several claims with the id 'surer-than-luck'; give each an id of its own"),
    ],
)
def test_a_module_without_good_claims_is_an_error_that_says_how(
    text: str, said: str, refused: Callable[..., str]
) -> None:
    Path("mine.py").write_text(text.replace("{example}", EXAMPLE))
    assert said in refused("claims", "--module", "mine.py")


@pytest.mark.parametrize(
    ("module", "said"),
    [
        ("not_there.py", "there is no file not_there.py"),
        ("no.such.module", "there is no module no.such.module"),
        ("two words", "'two words' is not the name of a module; write package.module, or path/to/file.py"),
    ],
)
def test_a_module_that_is_not_there_is_an_error(module: str, said: str, refused: Callable[..., str]) -> None:
    assert said in refused("claims", "--module", module)


def test_power_is_told_and_a_survivor_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    stored, read = tmp_path / "power.json", tmp_path / "power.md"
    arguments = ("--power", "--claim", "hit-*", "--trials", "20")
    assert otspec_command(monkeypatch, "claims", *arguments, "--json", str(stored), "--markdown", str(read)) == 0
    assert "1 mutations of 1 claims: all refuted" in capsys.readouterr().out
    (record,) = json.loads(stored.read_text())["mutations"]
    assert (record["claim"], record["refuted"]) == ("hit-submodular", True)
    assert "| `hit-submodular` |" in read.read_text()
    true = replace(CLAIMS["hit-submodular"], mutations=(Mutation("It is itself.", CLAIMS["hit-submodular"].margin),))
    monkeypatch.setitem(CLAIMS, "hit-submodular", true)
    assert otspec_command(monkeypatch, "claims", *arguments) == 1
    assert "NOT REFUTED: hit-submodular" in capsys.readouterr().out
    assert otspec_command(monkeypatch, "claims", "--power", "--list") == 2
