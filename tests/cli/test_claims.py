"""`otspec claims`: checked, listed, shown, replayed, weakened, and of one's own."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from otspec.proofs_check import CLAIMS, Mutation, Verdict
from otspec.reporting.console import console
from tests.cli.running import Otspec


def test_one_claim_in_all_its_forms(otspec: Otspec) -> None:
    assert "hit-submodular" in otspec("claims --claim hit-* --trials 20 --json found.json --markdown found.md").out
    assert "`hit-submodular`" in Path("found.md").read_text()
    (source,) = json.loads(Path("found.json").read_text())["sources"]
    assert source["claims"][0]["trials"] == 20
    assert "margin now" in otspec("claims --replay found.json").out


CUT = '{"sources": [{"claims": [{"id": "hit-submodular", "worst": 0, "witness": "p"}]}]}'


def test_a_file_that_is_not_a_report_is_one_line(otspec: Otspec) -> None:
    broken = Path("broken.json")
    for content in (b"{", b"\x80\x00\xff", b"", b"[" * 100_000):
        broken.write_bytes(content)
        assert "cannot be read as JSON" in otspec("claims --replay broken.json", 2).err
    for text in ("3", "[]", "null", '{"sources": 3}', '{"sources": [{"claims": [{"id": []}]}]}', CUT):
        broken.write_text(text)
        assert "this is no report of" in otspec("claims --replay broken.json", 2).err


def test_list_and_show_check_nothing_and_tell_all(otspec: Otspec, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_check(*_: object) -> None:
        raise AssertionError("a claim was checked")

    monkeypatch.setattr("otspec.proofs_check.check", no_check)
    monkeypatch.setattr(console, "width", 400)
    shown = otspec("claims --list").out
    assert f"{len(CLAIMS)} claims" in shown
    assert all(name in shown for name in CLAIMS)
    shown = otspec("claims --list --claim hit-* --claim gr-equation-34 --json listed.json").out
    assert "hit-submodular" in shown
    assert "gr-theorem" not in shown
    listed = {each["id"]: each for each in json.loads(Path("listed.json").read_text())}
    assert [each["expected"] for each in listed.values()] == ["fails", "holds"]
    assert listed["gr-equation-34"]["counterexample"]["p"] == [0.5, 0.5]
    for verdict in Verdict:
        claim = next(one for one in CLAIMS.values() if one.expected is verdict)
        shown = otspec(f"claims --show {claim.id}").out
        for part in (claim.id, claim.statement, claim.source, verdict.value, claim.remedy, claim.assumption):
            assert " ".join(part.split()) in shown, claim.id
        assert ("with margin" in shown) == (verdict is not Verdict.HOLDS), claim.id


EXAMPLE = """\
import numpy as np

from otspec.proofs_check import Descent, claim
from otspec.proofs_check.instances import pair


@claim("surer-than-luck", pair, Descent("p q"))
def surer_than_luck(p, q):
    "Speculative sampling accepts at least as often as a draft happens to be what the target draws. [my notes]"
    return np.minimum(p, q).sum() - p @ q


CLAIMS = [surer_than_luck]
"""


def test_a_claim_of_ones_own_is_checked_from_its_file(otspec: Otspec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "mine", raising=False)  # of another test, from another folder
    Path("mine.py").write_text(EXAMPLE)
    shown = otspec("claims --module mine.py --trials 200 --claim surer-* --json found.json").out
    assert "1 claim of sources: 1 holds on all that was tried. All as expected." in shown
    (source,) = json.loads(Path("found.json").read_text())["sources"]
    assert (source["title"], source["claims"][0]["id"]) == ("mine.py", "surer-than-luck")
    assert source["claims"][0]["trials"] > 100
    for module in ("mine.py", "mine"):  # by its file, and by its name
        assert "surer-than-luck" in otspec(f"claims --module {module} --replay found.json").out
    assert "--module" in otspec("claims --replay found.json", 2).err
    assert "my notes" in otspec("claims --module mine.py --show surer-than-luck").out
    assert "surer-than-luck" in otspec("claims --module mine.py --claim gr-*", 2).err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has no claims; give it a list CLAIMS"),
        ("CLAIMS = []", "has no claims"),
        ("from otspec.proofs_check import CLAIMS", "has no claims"),
        ("{example}\n@claim('n', [{'a': 1}])\ndef n(a):\n 'It. [n]'\nCLAIMS = [n]", "margin of claim 'n' is None"),
        ("{example}\nclaim('e', [])", "claim 'e' has no instances; list some"),
        ("CLAIMS = 3", "CLAIMS of mine.py is 3; make it a list"),
        ("CLAIMS = ['surer']", "holds 'surer', which is no otspec.proofs_check.Claim; make it one"),
        ("{example}\nCLAIMS = 2 * CLAIMS", "several claims with the id 'surer-than-luck'; give each an id of its own"),
        ("{example}\n@claim('c', [{'a': {1}}])\ndef c(a):\n 'It. [n]'\n return 1\nCLAIMS = [c]", "found.json is not"),
    ],
)
def test_a_module_without_good_claims_is_an_error_that_says_how(text: str, said: str, otspec: Otspec) -> None:
    Path("mine.py").write_text(text.replace("{example}", EXAMPLE))
    assert said in otspec("claims --module mine.py --json found.json", 2).err


def test_power_is_told_and_a_survivor_is_an_error(otspec: Otspec, monkeypatch: pytest.MonkeyPatch) -> None:
    line = "claims --power --claim hit-* --trials 20"
    assert "1 mutations of 1 claims: all refuted" in otspec(f"{line} --json power.json --markdown power.md").out
    (record,) = json.loads(Path("power.json").read_text())["mutations"]
    assert (record["claim"], record["refuted"]) == ("hit-submodular", True)
    assert "| `hit-submodular` |" in (report := Path("power.md").read_text())
    assert "Made by `otspec claims --power --claim 'hit-*' --trials 20 --json" in report
    true = replace(CLAIMS["hit-submodular"], mutations=(Mutation("It is itself.", CLAIMS["hit-submodular"].margin),))
    monkeypatch.setitem(CLAIMS, "hit-submodular", true)
    assert "NOT REFUTED: hit-submodular" in otspec(line, 1).out
