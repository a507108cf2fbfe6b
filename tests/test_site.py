"""The documentation site: its sources, and what a browser sees of it where OTSPEC_SITE names a built one."""

import inspect
import json
import os
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

import otspec
from otspec.proofs_check import CLAIMS
from tests.each import each
from tests.pages import FLAGS, Reader

ROOT = Path(__file__).parents[1]
PAGES = {str(path.relative_to(ROOT / "docs")): path.read_text() for path in sorted(ROOT.glob("docs/**/*.md"))}
"""Every page by its path in docs/."""

STATEMENT = re.compile(r"^> \*\*(Definition|Theorem|Lemma|Corollary) (\d+)\b", re.MULTILINE)
THEORY = {name: text for name, text in PAGES.items() if STATEMENT.search(text)}
"""Pages with numbered statements, in whichever folder they stand."""

LEAST_STATEMENTS = Counter({"Definition": 28, "Lemma": 18, "Theorem": 60, "Corollary": 5})
"""Statements of each kind on all pages together."""

built = pytest.mark.skipif(
    not os.environ.get("OTSPEC_SITE"), reason="OTSPEC_SITE names no built site; .ci/run builds one with make site"
)
SITE = Path(os.environ.get("OTSPEC_SITE", ""))


def test_the_api_has_every_public_name() -> None:
    page = (ROOT / "docs" / "api" / "otspec.md").read_text()
    described = set(re.findall(r"auto\w+:: otspec\.(\w+)", page))
    modules = {name for name in otspec.__all__ if inspect.ismodule(getattr(otspec, name))}
    assert described == set(otspec.__all__) - modules
    assert modules <= {path.stem for path in (ROOT / "docs" / "api").glob("*.md")}


def test_every_page_is_in_the_contents() -> None:
    listed = set()
    for name, text in PAGES.items():
        for contents in re.findall(r"```\{toctree\}\n(.*?)```", text, re.DOTALL):
            entries = [line for line in contents.splitlines() if line and not line.startswith(":")]
            targets = [re.sub(r"^.*<(.*)>$", r"\1", entry) for entry in entries]
            listed |= {(Path(name).parent / f"{target}.md").as_posix() for target in targets}
    assert listed == PAGES.keys() - {"index.md"} | {"claims.md"}  # which the site makes


def test_no_statement_is_lost() -> None:
    """A page may be split, but its statements stay, and none of them is read as plain text."""
    count = Counter(kind for text in THEORY.values() for kind, _ in STATEMENT.findall(text))
    assert count >= LEAST_STATEMENTS


@each(name=list(THEORY))
def test_statements_are_numbered_in_order(name: str) -> None:
    numbers: dict[str, list[int]] = {}
    for kind, number in STATEMENT.findall(THEORY[name]):
        numbers.setdefault(kind, []).append(int(number))
    for kind, found in numbers.items():
        assert found == list(range(1, len(found) + 1)), kind


@each(name=list(THEORY))
def test_every_theorem_has_a_proof_and_says_what_checks_it(name: str) -> None:
    statements = re.split(r"(?=^> \*\*(?:Definition|Theorem|Lemma|Corollary) \d+)", THEORY[name], flags=re.MULTILINE)[
        1:
    ]
    theorems = [text for text in statements if not text.startswith("> **Definition")]
    for text in theorems:
        title = text.splitlines()[0]
        assert re.search(r"^\*Proof", text, re.MULTILINE), title
        (checked,) = re.findall(r"^\*Checked by\* (.*?)\.$", text, re.MULTILINE | re.DOTALL)
        named = re.findall(r"`([^`]+)`", checked)
        claims, files = [n for n in named if "/" not in n], [n for n in named if "/" in n]
        assert files, title
        assert not [path for path in files if not (ROOT / path.partition("::")[0]).exists()], title
        assert not [claim for claim in claims if claim not in CLAIMS], title


@built
def test_links_of_the_site_lead_somewhere_and_nothing_comes_from_a_network() -> None:
    pages = {path: Reader(path.read_text()).elements for path in SITE.glob("**/*.html")}
    assert len(pages) > 40
    anchors = {path: {attrs.get("id") for _, attrs in page} for path, page in pages.items()}
    wrong = []
    for path, page in pages.items():
        links = [attrs["href"] or "" for tag, attrs in page if tag == "a" and "href" in attrs]
        loaded = [attrs["src"] or "" for tag, attrs in page if tag in ("script", "img") and "src" in attrs]
        styled = [
            attrs for tag, attrs in page if tag == "link" and attrs.get("rel") in ("stylesheet", "icon", "preload")
        ]
        for source in (*loaded, *(attrs.get("href") or "" for attrs in styled)):
            if re.match(r"[a-z]+:|//", source) or not (path.parent / source.partition("?")[0]).exists():
                wrong += [] if source.startswith("data:") else [f"{path}: loads {source}"]
        for link in links:
            target, _, anchor = link.partition("#")
            if re.match(r"[a-z]+:", link) or link in ("", "#") or target.endswith((".png", ".bib")):
                continue
            led = (path.parent / target).resolve() if target else path
            if led not in pages:
                wrong += [] if led.exists() else [f"{path}: {link}"]
            elif anchor and anchor not in anchors[led]:
                wrong.append(f"{path}: {link}")
    assert not wrong


DUMP = ("--enable-logging=stderr", "--v=0", "--virtual-time-budget=20000", "--dump-dom")


@built
@pytest.mark.skipif(not shutil.which("chromium"), reason="chromium is not installed")
@pytest.mark.parametrize("page", ["index.html", "interval.html", "paths.html", "audit.html"])
def test_a_browser_shows_the_page_with_its_math_and_has_no_complaint(page: str, tmp_path: Path) -> None:
    shown = subprocess.run(
        ["chromium", *FLAGS, *DUMP, f"--user-data-dir={tmp_path / 'profile'}", (SITE / page).resolve().as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    complaints = [line for line in shown.stderr.splitlines() if "CONSOLE" in line]
    assert not complaints, json.dumps(complaints)
    assert "<mjx-container" in shown.stdout
    assert "data-mjx-error" not in shown.stdout
    assert "\\(" not in re.sub(r"<(script|pre|code)\b.*?</\1>", "", shown.stdout, flags=re.DOTALL)
