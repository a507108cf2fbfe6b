"""Flow engines as a fixture, and the option that forbids to skip one."""

from __future__ import annotations

import importlib
import os

import pytest

from otspec.extras import missing
from otspec.solvers.max_flow.engines import ENGINES, PACKAGES


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
    # Tiny models are read by one thread: those of several workers wait for each other longer than a pass takes.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
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
    if lacking := missing(PACKAGES[name]):
        pytest.skip(f"{name} needs {', '.join(lacking)}, not installed here")
    return name
