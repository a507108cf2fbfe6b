"""What is built from a checkout: every package, from real folders."""

import re
import tomllib
from pathlib import Path

import pytest

import otspec
from tests.processes import printed

ROOT = Path(__file__).parents[1]
FOLDERS = {"otspec": "otspec", "solvers": "otspec.solvers", "proofs_check": "otspec.proofs_check"}
"""The folders that hold the package, and what they are called once installed."""

LINKS = ("otspec", "solvers"), ("otspec", "proofs_check")


def test_every_package_is_listed_once() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    assert settings["package-dir"] == {name: folder for folder, name in FOLDERS.items()}
    there = {
        ".".join((name, *init.parent.relative_to(ROOT / folder).parts))
        for folder, name in FOLDERS.items()
        for init in (ROOT / folder).glob("**/__init__.py")
        if init.relative_to(ROOT).parts[:2] not in LINKS
    }
    assert sorted(settings["packages"]) == sorted(there)


def test_no_folder_of_code_lacks_an_init_file() -> None:
    for folder in FOLDERS:
        for module in (ROOT / folder).glob("**/*.py"):
            assert (module.parent / "__init__.py").exists(), f"{module.parent} would be left out of the wheel"


def test_one_module_each_whatever_it_is_reached_by() -> None:
    names = "otspec.solvers.lp", "otspec.proofs_check.claims"
    code = f"import sys, {', '.join(names)}; print(*(name for name in sys.modules if name.endswith(('.lp', 'claims'))))"
    assert printed(code).split() == list(names)


def test_changelog_citation_and_package_name_one_version() -> None:
    release = otspec.__version__.removesuffix(".dev0")
    newest = re.search(r"^## (?!Unreleased)(\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    cited = re.search(r"^version: (\S+)", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert newest is not None
    assert cited is not None
    assert newest[1] == cited[1] == release


@pytest.mark.parametrize("script", [".ci/graph_tool", ".ci/run", ".ci/vllm", ".ci/wheel", "Makefile"])
def test_scripts_name_tests_that_are_there(script: str) -> None:
    """A file that is merged into another would end them before they have tested anything."""
    named = re.findall(r"(?<=[\s/])tests/[\w/.]*\w", (ROOT / script).read_text())
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []
