"""Flow engines and no pictures as fixtures, the option that forbids to skip one, what was skipped, torch's threads."""

import importlib
import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from otspec.solvers.max_flow.engines import ENGINES, PACKAGES
from tests.interpreter import speed_up
from tests.spellings import not_installed

collect_ignore = ["typed_use.py"]
"""A script without examples, which --doctest-modules would run in every worker: tests/test_public_face.py runs it."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--require-engine",
        action="append",
        default=[],
        metavar="NAME",
        help="maximum-flow engine that has to be importable; without this, an engine that is not installed is skipped",
    )


def pytest_collection_finish() -> None:
    speed_up()


def pytest_configure(config: pytest.Config) -> None:
    # Before anything imports triton, which transformers may do; where there is a GPU its kernels are tested there.
    os.environ.setdefault("TRITON_INTERPRET", "0" if Path("/dev/nvidiactl").exists() else "1")
    os.environ.pop("COLUMNS", None)  # tables are drawn whole for a pipe; the workers of -n set a width
    for engine in config.getoption("--require-engine"):
        if engine not in ENGINES:
            raise pytest.UsageError(f"--require-engine {engine}: no such engine; known: {', '.join(ENGINES)}")
        for package in PACKAGES[engine]:
            try:
                importlib.import_module(package)
            except ImportError as error:
                raise pytest.UsageError(f"--require-engine {engine}: {error}") from error


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = terminalreporter.stats.get("skipped", [])
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in reports)
    for reason, times in sorted(reasons.items()):
        terminalreporter.write_line(f"skipped {times}: {reason}")


@pytest.fixture(params=list(ENGINES))
def engine(request: pytest.FixtureRequest) -> str:
    """Name of a maximum-flow engine that is installed."""
    name: str = request.param
    if reason := not_installed(PACKAGES[name]):
        pytest.skip(reason)
    return name


@pytest.fixture
def no_gradients() -> Iterator[None]:
    """Torch differentiates nothing, as in decoding."""
    import torch

    with torch.no_grad():
        yield


@pytest.fixture
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """None is drawn, which takes longer than all the rest."""
    monkeypatch.setattr("otspec.reporting.pictures.Picture.save", lambda *_: None)


@pytest.fixture(autouse=True)
def one_thread_each() -> Iterator[None]:
    """No test leaves torch with more threads than the tests began with: the tests after it would take twice as long."""
    yield
    if (torch := sys.modules.get("torch")) is not None:
        left, request = torch.get_num_threads(), int(os.environ["OMP_NUM_THREADS"])
        if left > request:
            torch.set_num_threads(request)
            pytest.fail(f"torch is left with {left} threads")
