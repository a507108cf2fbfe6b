"""What pages and docstrings name is there: files, objects, commands, rows of docs/papers.md; and the examples run."""

import importlib
import io
import re
import runpy
import shlex
import sys
from contextlib import redirect_stdout
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
import typer.main

from otspec.cli import app
from otspec.proofs_check import CLAIMS
from tests.cli.test_commands import otspec_command
from tests.each import each

ROOT = Path(__file__).parents[1]
FOLDERS = ("otspec", "solvers", "proofs_check", "benchmarks")
FILES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("otspec/**/*.md"))
CODE = (path for folder in FOLDERS for path in (ROOT / folder).glob("**/*.py"))
TEXTS = {str(path.relative_to(ROOT)): path.read_text() for path in (*sorted(FILES), *sorted(CODE))}
"""Every page and module by its path: what it says."""

WITH_MODELS = ("README.md", "docs/vocab.md", "docs/drafters.md", "docs/speed_up_a_decoder.md")
"""Pages whose examples decode with the shipped models; those of other pages go on from each other."""
SNIPPETS = {
    f"{name}, {number + 1}": snippet
    for name, text in TEXTS.items()
    if name.endswith(".md")
    for number, snippet in enumerate(re.findall(r"```python\n(.*?)```", text, re.DOTALL))
    if "import " in snippet and ("decode" not in snippet or name in WITH_MODELS)  # self-contained
}
"""The examples that run as they stand, by page and place."""


def test_files_that_are_named_exist() -> None:
    """Links from page to page are followed by `make site`."""
    named = re.compile(rf"(?<![\w./:-])((?:docs|tests|{'|'.join(FOLDERS)})/[\w./-]+\.(?:md|png|py))\b")
    dead = {name: [path for path in named.findall(text) if not (ROOT / path).exists()] for name, text in TEXTS.items()}
    assert not {name: paths for name, paths in dead.items() if paths}


def resolve(name: str) -> None:
    """Go along a dotted name, by attributes before modules: a folder of data may have the name of a function."""
    parts = name.split(".")
    found: Any = importlib.import_module(parts[0])
    for depth, part in enumerate(parts[1:], start=2):
        if not hasattr(found, part):
            importlib.import_module(".".join(parts[:depth]))
        found = getattr(found, part)


def test_names_in_backquotes_can_be_imported() -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    wrong = []
    for place, text in TEXTS.items():
        for name in set(re.findall(r"`(otspec(?:\.\w+)+)", text)):
            try:
                resolve(name)
            except (ImportError, AttributeError) as error:
                wrong.append(f"{place}: {name}: {error}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", SNIPPETS)
def test_examples_run_and_print_what_they_say(name: str) -> None:
    if "import torch" in SNIPPETS[name] or "decode" in SNIPPETS[name]:
        pytest.importorskip("torch")
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(compile(SNIPPETS[name], name, "exec", dont_inherit=True), {"__name__": "builtins"})
    said = " ".join(re.findall(r"^print\(.*\)  # (.*)$", SNIPPETS[name], re.MULTILINE))
    figures = [float(figure) for figure in re.findall(r"\d+\.\d+", said)]
    shown = [float(figure) for figure in re.findall(r"\d+\.\d+", printed.getvalue())]
    if figures:
        assert shown == pytest.approx(figures, abs=1e-3)


PAGES = {name: text for name, text in TEXTS.items() if name == "README.md" or fnmatch(name, "docs/*.md")}
TUTORIALS = ("docs/solvers.md", "docs/check_a_theorem.md", "docs/speed_up_a_decoder.md", "docs/audit.md")


def commands(text: str) -> list[str]:
    """Every line of a page that runs `otspec`, without what the shell makes of it."""
    joined = re.sub(r"\s*\\\n\s*", " ", text)
    shown = re.findall(r"^(?: {4,}|\$ )(?:[A-Z_]+=\S+ )*otspec (.*)$", joined, re.MULTILINE)
    return [line for line in shown if "..." not in line]


COMMAND = typer.main.get_command(app)
COMMANDS = {name: commands(text) for name, text in PAGES.items() if commands(text)}


def parse(line: str) -> None:
    """Parse what follows `otspec` in a command; what is no command or no option of it is refused."""
    command, arguments = COMMAND, shlex.split(line, comments=True)
    while arguments and (inner := getattr(command, "commands", {}).get(arguments[0])):
        command, arguments = inner, arguments[1:]
    assert command.make_context("otspec", arguments) is not None, line


@each(name=list(COMMANDS))
def test_commands_that_are_shown_can_be_parsed(name: str) -> None:
    for line in COMMANDS[name]:
        parse(line)


def without_rounding(text: str) -> str:
    """Figures of 1e-10 and less are rounding, which differs from one machine to the next."""
    return re.sub(r"\b[\d.]+e-1\d\b", "0", text)


@pytest.mark.parametrize("page", TUTORIALS)
def test_the_quick_commands_of_a_tutorial_do_what_it_says(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """All but `bench`, `tune`, `decode` and an audit of 141 348 draws, which take their time."""
    monkeypatch.chdir(tmp_path)
    for name, content in re.findall(r"Save this as `(\w+\.py)`.*?```python\n(.*?)```", PAGES[page], re.DOTALL):
        Path(name).write_text(content)
    for line, shown in re.findall(r"^\$ otspec (.*)\n((?:(?!\$ |```).*\n)*)", PAGES[page], re.MULTILINE):
        arguments = shlex.split(line)
        if arguments[0] in ("bench", "tune", "decode") or "otspec:verify" in line:
            continue
        status = otspec_command(monkeypatch, *arguments)
        assert status == (1 if "mine.py" in line or shown.startswith("NOT") else 0), line
        printed = capsys.readouterr().out
        if " draws " in shown.partition("\n")[0]:  # the stream of a generator may change from one numpy to the next
            assert printed.partition(":")[0] == shown.partition(":")[0]
        else:
            assert without_rounding(shown) in without_rounding(printed)


PAPERS = PAGES["docs/papers.md"]
NAMED = re.findall(r"`([^`]+)`", PAPERS)
OF_ROWS = [name.removeprefix("otspec ") for name in NAMED if name.startswith("otspec ")]
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
    section = re.search(rf"^## [^\n]*\[{paper}\]\n(.*?)(?=^## |\Z)", PAPERS, re.MULTILINE | re.DOTALL)
    assert section is not None
    for kind, count in PRINTED[paper].items():
        assert mentioned(kind, section[1]) >= set(range(1, count + 1)), kind


@each(line=OF_ROWS)
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
    request = [one for one in arguments if one.startswith("--")]
    command = arguments[:1] if arguments and not arguments[0].startswith("--") else []
    for imported in (script, f"{script}.__main__"):  # by other tests: what runs here is a module of its own
        monkeypatch.delitem(sys.modules, imported, raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(sys, "argv", [script, *command, "--help"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module(script, run_name="__main__")
    shown = capsys.readouterr().out
    assert ended.value.code in (0, None)
    assert [option for option in request if option not in shown] == []
