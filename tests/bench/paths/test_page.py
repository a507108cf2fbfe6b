"""report.html of the benchmark of recorded trees, in a browser."""

from pathlib import Path

import pytest

from otspec.bench.kinds import kind_of
from otspec.bench.report import write
from otspec.reporting.page import lacking
from tests.bench.test_report import run_of
from tests.pages import Browser, charts_of


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of two files of trees."""
    if reason := lacking():
        pytest.skip(reason)
    run = run_of("paths", tmp_path_factory.mktemp("page") / "run")
    report = kind_of("paths").report(run)
    assert report is not None
    write(report, run, [])
    return run.path / "report.html"


def test_charts_have_what_rules_accept_and_how_deep_they_get(page: Path) -> None:
    gains, accepted, reach, *_ = charts_of(page)
    assert [(row["x"], row["y"], row["series"]) for row in gains["data"]["values"]] == [
        ("a", pytest.approx(0.1), "nested"),
        ("b", pytest.approx(0.1), "nested"),
    ]
    assert [row["series"] for row in accepted["data"]["values"]] == ["nested", "interval"]
    assert accepted["data"]["values"][1]["x"] == pytest.approx(0.625)
    assert [(row["x"], row["y"]) for row in reach["data"]["values"]][2:] == [(1, 0.5), (2, pytest.approx(0.125))]


@pytest.mark.parametrize("width", [1280, 360])
def test_a_browser_draws_it(page: Path, browser: Browser, width: int) -> None:
    browser.open(page, width)
    assert browser.complaints() == []
    for at, chart in enumerate(charts_of(page)):
        found = browser.all(f"[data-chart='{at}'] path[aria-roledescription='point']")
        assert len(found) == len(chart["data"]["values"])
    assert browser.run("return document.documentElement.scrollWidth") <= width
