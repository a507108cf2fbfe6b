"""Engines and solvers as fixtures, and the option that forbids to skip an engine."""

from __future__ import annotations

import importlib
import os

import pytest

from otspec.catalogue import get
from otspec.extras import missing
from otspec.solvers.max_flow.engines import ENGINES, PACKAGES
from tests.spellings import exact_spellings


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--require-engine",
        action="append",
        default=[],
        metavar="NAME",
        help="maximum-flow engine that has to be importable; without this, an engine that is not installed is skipped",
    )


def pytest_configure(config: pytest.Config) -> None:
    os.environ.pop("COLUMNS", None)  # tables are drawn whole for a pipe; the workers of -n set a width
    for engine in config.getoption("--require-engine"):
        if engine not in ENGINES:
            raise pytest.UsageError(f"--require-engine {engine}: no such engine; known: {', '.join(ENGINES)}")
        for package in PACKAGES[engine]:
            try:
                importlib.import_module(package)
            except ImportError as error:
                raise pytest.UsageError(f"--require-engine {engine}: {error}") from error


@pytest.fixture(params=list(ENGINES))
def engine(request: pytest.FixtureRequest) -> str:
    """Name of a maximum-flow engine that is installed."""
    name: str = request.param
    _skip_without(name, PACKAGES[name])
    return name


@pytest.fixture(params=exact_spellings())
def exact_spelling(request: pytest.FixtureRequest) -> str:
    """Spelling of an exact solver whose packages are installed."""
    spelling: str = request.param
    _skip_without(spelling, get(spelling).packages)
    return spelling


def _skip_without(name: str, packages: tuple[str, ...]) -> None:
    if lacking := missing(packages):
        pytest.skip(f"{name} needs {', '.join(lacking)}, not installed here")
