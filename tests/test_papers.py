"""docs/papers.md: each row of the five papers is there, and what it names is there, too."""

import re
import runpy
import shlex
import sys
from fnmatch import fnmatch

import pytest

from otspec.proofs_check import CLAIMS
from tests.each import each
from tests.test_tutorials import PAGES, parse

PAGE = PAGES["docs/papers.md"]
NAMED = re.findall(r"`([^`]+)`", PAGE)
COMMANDS = [name.removeprefix("otspec ") for name in NAMED if name.startswith("otspec ")]
SCRIPTS = [name.removeprefix("python -m ") for name in NAMED if name.startswith("python -m ")]
FAMILIES = ("gr", "rdk", "dynaspec", "steering", "notes")
"""What the names of a paper's claims begin with, paper by paper."""
PATTERNS = [name for name in NAMED if re.fullmatch(rf"({'|'.join(FAMILIES)})-[\w.*-]+", name)]
PRINTED = {
    "thomas2025global": {"Table": 5, "Figure": 5},
    "timor2025out": {"Figure": 12},
    "zhang2025dynaspec": {"Table": 2, "Figure": 2},
    "berdozsteering": {"Table": 5, "Figure": 6},
    "aarnphm2025speculative": {},
}
"""How many tables and figures each paper has."""


def mentioned(kind: str, text: str) -> set[int]:
    """The numbers of the tables or figures that a text names, as in "Figures 1 to 4, 8"."""
    numbers: set[int] = set()
    for listing in re.findall(rf"{kind}s? (\d+(?:(?:, | to )\d+)*)", text):
        for first, last in re.findall(r"(\d+)(?: to (\d+))?", listing):
            numbers |= set(range(int(first), int(last or first) + 1))
    return numbers


@each(paper=list(PRINTED))
def test_every_table_and_figure_has_a_row(paper: str) -> None:
    section = re.search(rf"^## [^\n]*\[{paper}\]\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert section is not None
    for kind, count in PRINTED[paper].items():
        assert mentioned(kind, section[1]) >= set(range(1, count + 1)), kind


@each(line=COMMANDS)
def test_commands_of_the_rows_can_be_parsed(line: str) -> None:
    parse(line)


@each(pattern=PATTERNS)
def test_claims_of_the_rows_are_registered(pattern: str) -> None:
    assert any(fnmatch(claim, pattern) for claim in CLAIMS)


@each(claim=[claim for claim in CLAIMS if claim.startswith(tuple(f"{family}-" for family in FAMILIES))])
def test_every_claim_of_the_papers_has_a_row(claim: str) -> None:
    assert any(fnmatch(claim, pattern) for pattern in PATTERNS)


@pytest.mark.parametrize("line", SCRIPTS)
def test_scripts_of_the_rows_have_these_commands_and_options(
    line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    script, *arguments = shlex.split(line)
    asked = [one for one in arguments if one.startswith("--")]
    command = arguments[:1] if arguments and not arguments[0].startswith("--") else []
    for imported in (script, f"{script}.__main__"):  # by other tests: what runs here is a module of its own
        monkeypatch.delitem(sys.modules, imported, raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(sys, "argv", [script, *command, "--help"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module(script, run_name="__main__")
    shown = capsys.readouterr().out
    assert ended.value.code in (0, None)
    assert [option for option in asked if option not in shown] == []


def test_the_page_names_enough() -> None:
    """The patterns above find what they are to find: a page that is written otherwise would pass unseen."""
    assert len(COMMANDS) > 40
    assert len(SCRIPTS) > 10
    assert {pattern.partition("-")[0] for pattern in PATTERNS} == set(FAMILIES)
