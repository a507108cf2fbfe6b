"""What pages and docstrings name is there, files and objects; and the examples of pages run."""

import importlib
import io
import re
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("otspec", "solvers", "proofs_check", "benchmarks")
PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("otspec/**/*.md"))
CODE = (path for folder in FOLDERS for path in (ROOT / folder).glob("**/*.py"))
TEXTS = {str(path.relative_to(ROOT)): path.read_text() for path in (*sorted(PAGES), *sorted(CODE))}
"""Every page and module by its path: what it says."""

WITH_MODELS = ("docs/vocab.md", "docs/drafters.md")
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


def test_scripts_that_are_named_exist() -> None:
    dead = []
    for place, text in TEXTS.items():
        if "measurements-2026-11" not in text:  # the page says that its commands are those of the tag
            named = re.findall(r"python -m (benchmarks[.a-z_]+)(?![A-Z])|`(benchmarks[.a-z_]+)`", text)
            scripts = [ROOT.joinpath(*(first or second).split(".")) for first, second in named]
            dead += [(place, one.name) for one in scripts if not (one.with_suffix(".py").exists() or one.is_dir())]
    assert not dead


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
