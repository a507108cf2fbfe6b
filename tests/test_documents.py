"""What the documents and docstrings name is there: files, modules, objects, claims; and the examples run."""

from __future__ import annotations

import importlib
import io
import re
from contextlib import redirect_stdout
from fnmatch import fnmatch
from pathlib import Path

import pytest

import otspec
from otspec.errors import MissingExtra
from otspec.proofs_check import CLAIMS
from tests.each import each

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("otspec/decode/shipped/*.md"))
)
CODE = sorted(
    path
    for folder in ("otspec", "solvers", "proofs_check", "benchmarks", "tests")
    for path in (ROOT / folder).glob("**/*.py")
    if path.relative_to(ROOT).parts[:2] not in (("otspec", "solvers"), ("otspec", "proofs_check"))
    and path != Path(__file__)
)
TEXTS = {str(path.relative_to(ROOT)): path.read_text() for path in (*PAGES, *CODE)}
"""Every page and module by its path: what it says."""

SNIPPETS = {
    f"{name}, {number + 1}": snippet
    for name, text in TEXTS.items()
    if name.endswith(".md")
    for number, snippet in enumerate(re.findall(r"```python\n(.*?)```", text, re.DOTALL))
    if "import " in snippet and "decode" not in snippet  # self-contained, and without models
}
"""The examples that run as they stand, by page and place."""


def missing_from(name: str) -> str | None:
    """Why an object of this package cannot be reached by its dotted name, or None if it can."""
    parts = name.split(".")
    # To import these takes longer than all the rest, and needs torch.
    if parts[1] in ("decode", "engines") or parts[1:3] == ["verification", "device"]:
        return _missing_from_source(parts)
    found: object = otspec
    for used, part in enumerate(parts[1:], start=2):
        if _source(parts[:used]) and not hasattr(found, part):
            try:
                importlib.import_module(".".join(parts[:used]))
            except (ImportError, MissingExtra):  # what it takes is not installed
                return _missing_from_source(parts)
        if part == "generate" and found is otspec:  # as above
            return None if part in dir(otspec) else f"nothing like {name}"
        try:
            found = getattr(found, part)
        except AttributeError as error:
            return str(error)
    return None


def _missing_from_source(parts: list[str]) -> str | None:
    """The same by the words of the module alone."""
    used = next(used for used in range(len(parts), 0, -1) if _source(parts[:used]))
    source = _source(parts[:used]) or ""
    known = all(re.search(rf"\b{part}\b", source) for part in parts[used:])
    return None if known else f"nothing like {'.'.join(parts)}"


def _source(parts: list[str]) -> str | None:
    """The text of a module, None where there is no such module."""
    folder = ROOT.joinpath(*parts)
    paths = (folder / "__init__.py", folder.with_suffix(".py"))
    return next((path.read_text() for path in paths if path.exists()), None)


@each(name=[name for name in TEXTS if name.endswith(".md")])
def test_links_lead_to_files(name: str) -> None:
    text = re.sub(r"```.*?```", "", TEXTS[name], flags=re.DOTALL)
    links = [link for link in re.findall(r"\]\(([^()\s#]+)[^()\s]*\)", text) if "://" not in link]
    dead = [link for link in links if not (ROOT / name).parent.joinpath(link).exists()]
    assert not dead


@each(name=[name for name in TEXTS if name.endswith(".md")])
def test_links_into_a_page_lead_to_a_heading(name: str) -> None:
    dead = []
    for page, anchor in re.findall(r"\]\(([^()\s#:]*)#([^()\s]+)\)", TEXTS[name]):
        text = (ROOT / name).parent.joinpath(page).read_text() if page else TEXTS[name]
        headings = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE)
        if anchor not in {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}:
            dead.append(f"{page}#{anchor}")
    assert not dead


@each(name=list(TEXTS))
def test_files_that_are_named_exist(name: str) -> None:
    folders = "docs|tests|benchmarks|otspec|solvers|proofs_check"
    named = re.findall(rf"(?<![\w./:-])((?:{folders})/[\w./-]+\.\w+)", TEXTS[name])  # COMMIT:PATH is of the past
    dead = [path for path in named if Path(path).suffix in (".md", ".png", ".py") and not (ROOT / path).exists()]
    assert not dead


def test_what_was_taken_out_is_gone() -> None:
    """docs/tried.md names files by the commit that they are in: none of them is there any more."""
    named = re.findall(r"\b[0-9a-f]{7}:([\w./-]+)", TEXTS["docs/tried.md"])
    assert len(named) > 8
    assert not [path for path in named if (ROOT / path).exists()]


@each(name=list(TEXTS))
def test_names_in_backquotes_can_be_imported(name: str) -> None:
    named = re.findall(r"`(otspec(?:\.\w+)+)", TEXTS[name])
    wrong = [problem for problem in map(missing_from, sorted(set(named))) if problem]
    assert not wrong


@each(name=list(TEXTS))
def test_scripts_that_are_named_exist(name: str) -> None:
    if "measurements-2026-11" in TEXTS[name]:
        return  # the page says that its commands are those of the tag
    named = re.findall(r"python -m (benchmarks[.a-z_]+)(?![A-Z])|`(benchmarks[.a-z_]+)`", TEXTS[name])
    scripts = [ROOT.joinpath(*(first or second).split(".")) for first, second in named]
    dead = [script.name for script in scripts if not (script.with_suffix(".py").exists() or script.is_dir())]
    assert not dead


@each(name=list(TEXTS))
def test_claims_that_are_named_exist(name: str) -> None:
    named = re.findall(r"--claim '?([a-z][\w.*-]+)", TEXTS[name])
    unknown = [] if name.startswith("tests/") else [p for p in named if not any(fnmatch(c, p) for c in CLAIMS)]
    assert not unknown


@pytest.mark.parametrize("name", SNIPPETS)
def test_examples_run_and_print_what_they_say(name: str) -> None:
    if "import torch" in SNIPPETS[name]:
        pytest.importorskip("torch")
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(compile(SNIPPETS[name], name, "exec", dont_inherit=True), {"__name__": "builtins"})
    said = " ".join(re.findall(r"^print\(.*\)  # (.*)$", SNIPPETS[name], re.MULTILINE))
    figures = [float(figure) for figure in re.findall(r"\d+\.\d+", said)]
    shown = [float(figure) for figure in re.findall(r"\d+\.\d+", printed.getvalue())]
    if figures:
        assert shown == pytest.approx(figures, abs=1e-3)
