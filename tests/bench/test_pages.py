"""report.html: one file that loads nothing, with the figures of report.md; and what a browser makes of it."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from otspec.bench import Cell
from otspec.bench.records import Record
from otspec.bench.report import kind_of, write
from otspec.bench.solvers.benchmark import chart_groups, series_of
from otspec.bench.solvers.summary import summarise
from otspec.bench.solvers.tables import failures_table, overview_table, results_table
from otspec.reporting.page import Section, sort_key, write_page
from otspec.reporting.style import DARK, HUES, LIGHT
from tests.bench.records import solved, unsolved
from tests.bench.test_report import run_of
from tests.pages import Browser, Reader, charts_of, no_browser

pytestmark = pytest.mark.usefixtures("no_pictures")

EVIL = "mine:</script><script>boom()</script><b>&\"'`<!--"
"""A name that would break out of whatever is not escaped."""


def records(cell: Cell, count: int, status: str = "OPTIMAL", ms: float = 1.0) -> list[Record]:
    """So many positions of a cell, the last one with the status."""
    rng = np.random.default_rng([cell.k, cell.n])
    best = [{"optimum": 0.6 + 0.01 * at, "message": EVIL} for at in range(count)]
    times = ms / 1000 * rng.uniform(0.9, 1.1, count)
    found = [solved(cell, at, times[at], acceptance=0.5 + 0.01 * at, **best[at]) for at in range(count)]
    return found if status == "OPTIMAL" else [*found[:-1], unsolved(cell, count - 1, status, times[-1], **best[-1])]


HELD = {
    cell: records(cell, *more)
    for cell, *more in (
        (Cell(10, 2, "interval"), 4),
        (Cell(10, 2, "lp"), 4, "OPTIMAL", 30),
        (Cell(10, 2, EVIL), 4, "OPTIMAL", 2),
        (Cell(10, 3, "interval"), 4),
        (Cell(10, 3, "lp"), 3, "LIMIT", 400),
        (Cell(0, 2, "interval"), 4, "OPTIMAL", 3),
        (Cell(0, 2, "lp"), 2, "BUDGET", 20_000),
        (Cell(0, 3, "interval"), 4, "OPTIMAL", 3),
        (Cell(0, 3, "lp"), 1, "LIMIT"),
    )
}
"""Two values of k and n, a lower bound, a solver that gave up, one that refuses, and a name full of markup."""
RUN = {"positions": 4, "cells": {name: [getattr(cell, name) for cell in HELD] for name in ("data", "k", "n", "solver")}}
SUMMARIES = summarise([record for mine in HELD.values() for record in mine], [RUN])
TABLES = [overview_table(SUMMARIES, "llama3"), results_table(SUMMARIES, "llama3")]
TABLES += filter(None, [failures_table(SUMMARIES)])


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of those summaries."""
    part = Section("llama3", series_of(SUMMARIES), chart_groups(SUMMARIES), TABLES)
    about = [f"Measured on: {EVIL}.", f"Measured by:\n\n- 2026: `otspec bench {EVIL.replace('`', '')}`"]
    path = tmp_path_factory.mktemp("page") / "report.html"
    write_page(path, f"Solvers {EVIL}", about, [part])
    return path


def test_the_page_is_one_file_that_loads_nothing(page: Path) -> None:
    found = Reader(page.read_text())
    loading = {"src", "href", "srcset", "data", "action"}
    assert [(tag, attrs) for tag, attrs in found.elements if attrs.keys() & loading] == []
    assert not {tag for tag, _ in found.elements} & {"link", "img", "iframe", "object", "embed", "base"}
    metas = {attrs.get("http-equiv"): attrs.get("content") for tag, attrs in found.elements if tag == "meta"}
    policy = str(metas["Content-Security-Policy"])
    assert policy.startswith("default-src 'none';")
    assert not re.search(r"https?:", policy)
    assert not re.search(r"@import|url\(|@font-face", page.read_text().partition("</style>")[0])
    assert [path.name for path in page.parent.iterdir()] == ["report.html"]
    assert page.stat().st_size < 1_500_000


def test_nothing_in_a_name_breaks_out_of_the_page(page: Path) -> None:
    found = Reader(page.read_text())
    assert [attrs.get("type") for attrs, _ in found.scripts] == ["application/json", "module", "module"]
    assert "b" not in {tag for tag, _ in found.elements}
    data = json.loads(found.scripts[0][1])
    assert EVIL in json.dumps(data["charts"], ensure_ascii=False).replace('\\"', '"')
    chips = [attrs["data-series"] for _, attrs in found.elements if "data-series" in attrs]
    assert f"{EVIL} (suboptimal)" in chips
    assert "NaN" not in found.scripts[0][1]
    for shown, table in zip(found.tables, TABLES, strict=True):
        assert [tuple(row) for row in shown] == [table.header, *table.rows]


def test_charts_hold_every_point_with_its_interval_and_open_ends(page: Path) -> None:
    settings, best, *charts = charts_of(page)
    rows = [chart["data"]["values"] for chart in charts]
    assert len(settings["data"]["values"]) == sum(not one["refused"] for one in SUMMARIES)
    assert {row["x"]: row["y"] for row in best["data"]["values"]} == {
        f"({k or 'V'}, {n})": pytest.approx(np.mean([0.6 + 0.01 * position for position in range(count)]))
        for k, n, count in ((10, 2, 4), (10, 3, 4), (0, 2, 4), (0, 3, 4))
    }
    panels = [("n", 2), ("n", 3), ("k", 10), ("k", 0)]  # over k twice, then over n
    inside = [[one for one in SUMMARIES if one[letter] == value] for letter, value in panels]
    assert [len(one) for one in rows[:4]] == [sum(not one["refused"] for one in mine) for mine in inside]
    for group in (rows[4:8], rows[8:]):
        assert [len(one) for one in group] == [sum(one["acceptance"] is not None for one in mine) for mine in inside]

    times = {(row["series"], row["x"]): row for row in rows[0]}
    assert len(times) == 5
    assert [place for place, row in times.items() if row["open"]] == [("lp (suboptimal)", "V")]
    interval = times["interval (suboptimal)", "10"]
    assert [interval[end] for end in ("low", "y", "high")] == [SUMMARIES[0][name] for name in ("low", "median", "high")]
    accepted = {(row["series"], row["x"]): row for row in rows[5]}
    assert [place for place, row in accepted.items() if row["part"]] == [("lp (suboptimal)", "10")]
    interval = accepted["interval (suboptimal)", "10"]
    assert interval["y"] == SUMMARIES[3]["acceptance"]
    assert interval["high"] - interval["y"] == pytest.approx(SUMMARIES[3]["acceptance_error"])
    assert next(row for row in rows[9] if row["series"].startswith("lp"))["y"] == pytest.approx(-0.1)
    for chart in charts:
        scale = chart["layer"][0]["encoding"]["color"]["scale"]
        colours = dict(zip(scale["domain"], scale["range"], strict=True))
        assert (colours["interval (suboptimal)"], colours["lp (suboptimal)"]) == (HUES["blue"], LIGHT.ink)


def test_charts_of_decoding_have_the_intervals_of_the_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.setattr("otspec.bench.intervals.RESAMPLES", 99)
    from otspec.bench.decoding import benchmark as charts
    from otspec.bench.decoding import summary
    from otspec.bench.decoding.cells import DecodingCell
    from tests.bench.decoding.fakes import GENERATE, INTERVAL, NESTED, VANILLA, record

    block, lookup = DecodingCell("block", paths=1, depth=8), DecodingCell("prompt-lookup", paths=2, depth=8)
    others = [NESTED, INTERVAL, replace(NESTED, paths=3), replace(NESTED, drafter="fr:20")]
    cells = [VANILLA, GENERATE, block, lookup, *others]
    measured = [record(cell, at, 8 + at + cell.paths, 4, 0.5 + 0.1 * at) for at in range(6) for cell in cells]
    summaries = summary.summarise(measured)
    section = Section("T = 1", charts.series_of(summaries), charts.chart_groups(summaries), [])
    write_page(tmp_path / "p.html", "t", [], [section])
    efficiency, *over, phases, drafters = charts_of(tmp_path / "p.html")
    shown = {(summary.label(one), one.cell.paths): one for one in summaries}
    rows = {(row["series"], row["x"]): row for row in efficiency["data"]["values"]}
    assert len(rows) == 4 + 2 + 1  # of two paths, block at each K, nested of three
    for (name, place), row in rows.items():
        one = shown[name, 1 if name.startswith("block") else int(place[-1])].efficiency
        assert (row["y"], row["low"], row["high"]) == (one.value, one.low, one.high)
    for chart, baseline in zip(over, ("generate", "vanilla", "prompt-lookup", "block"), strict=True):
        bars = {row["y"]: (row["x"], row["low"], row["high"]) for row in chart["data"]["values"]}
        assert bars == {
            summary.whole_label(one): (estimate.value, estimate.low, estimate.high)
            for one in summaries
            for cell, estimate in one.speed_ups.items()
            if cell.method == baseline
        }
    spent = sum(row["x"] for row in phases["data"]["values"] if row["series"] == "generate")
    (plain,) = [one for one in summaries if one.cell == GENERATE]
    assert spent == pytest.approx(plain.ms_per_token)
    assert {row["series"] for row in drafters["data"]["values"]} == {"nested", "nested (drafted by fr:20)"}


def test_charts_of_paths_have_what_rules_accept_and_how_deep_they_get(tmp_path: Path) -> None:
    run = run_of("paths", tmp_path / "paths")
    report: Any = kind_of("paths").report(run)
    write(report, run, [])
    gains, accepted, reach, *_ = (chart["data"]["values"] for chart in charts_of(run.path / "report.html"))
    assert [(row["x"], row["y"], row["series"]) for row in gains] == [(at, pytest.approx(0.1), "nested") for at in "ab"]
    assert [row["series"] for row in accepted] == ["nested", "interval"]
    assert accepted[1]["x"] == pytest.approx(0.625)
    assert [(row["x"], row["y"]) for row in reach][2:] == [(1, 0.5), (2, pytest.approx(0.125))]


def test_figures_sort_by_their_first_number() -> None:
    cells = (">= 1,001 (0%)", "1.65 [1.55, 1.79]", "-0.083 [-0.480, +0.282]", "2e-16", "refused")
    assert [*map(sort_key, cells)] == ["1001", "1.65", "-0.083", "2e-16", ""]


# --- in a browser

POINTS = "[data-chart='{}'] path[aria-roledescription='{}']"
PAPER = "return getComputedStyle(document.body).backgroundColor"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One for all; each test opens its page anew."""
    if reason := no_browser():
        pytest.skip(reason)
    shown = Browser(tmp_path_factory.mktemp("profile"))
    yield shown
    shown.driver.quit()


@pytest.mark.parametrize(("width", "scheme"), [(1280, "dark"), (360, "light")])
def test_a_browser_draws_every_point_and_loads_nothing(page: Path, browser: Browser, width: int, scheme: str) -> None:
    """Every figure has its mark, inside the window, and the console says nothing."""
    browser.open(page, width, scheme)
    assert browser.complaints() == []
    for at, chart in enumerate(charts_of(page)):
        mark = "bar" if chart["layer"][0]["mark"]["type"] == "bar" else "point"
        rows = chart["data"]["values"]
        assert len(browser.all(POINTS.format(at, mark))) == len(rows) + sum(row.get("open", False) for row in rows), at
    assert browser.run("return document.documentElement.scrollWidth") <= width
    assert browser.run("return performance.getEntriesByType('resource').map((one) => one.name)") == []
    widths = browser.run("return [...document.querySelectorAll('svg')].map((one) => one.getBoundingClientRect().right)")
    assert max(widths) <= width
    colours = {"light": ("rgb(255, 255, 255)", LIGHT.ink), "dark": ("rgb(21, 24, 28)", DARK.ink)}[scheme]
    assert browser.run(PAPER) == colours[0]
    letters = "[...document.querySelectorAll('.role-axis-label text')].map((one) => one.getAttribute('fill'))"
    assert set(browser.run(f"return {letters}")) == {colours[1]}
    other = "light" if scheme == "dark" else "dark"
    browser.prefer(other)
    browser.wait(f"return document.documentElement.dataset.drawn === '{other}'")
    browser.all("#theme")[0].click()
    browser.wait(f"return document.documentElement.dataset.drawn === '{scheme}'")
    assert browser.complaints() == []


def test_a_click_sorts_and_switches_series_off_and_a_hover_tells_the_figures(page: Path, browser: Browser) -> None:
    browser.open(page)
    table = "document.querySelectorAll('table')[1]"
    rows = f"return [...{table}.tBodies[0].rows].map((row) => [...row.cells].map((cell) => cell.textContent))"
    before = browser.run(rows)
    heads = browser.run(f"return {table}").find_elements("css selector", "th button")
    for click, sign in ((1, 1), (2, -1)):
        heads[2].click()
        after = browser.run(rows)
        assert after != before
        assert sorted(after) == sorted(before)  # whole rows move
        keys = [sort_key(row[2]) for row in after]
        known = [float(key) for key in keys if key]
        assert known == sorted(known, key=lambda value: sign * value)
        assert keys[len(known) :] == [""], click  # refused, at the end either way
    points = POINTS.format(0, "point")
    (chip,) = [one for one in browser.all(".series button") if one.text.endswith("lp (suboptimal)")]
    before = len(browser.all(points))
    for compared in ("<", "==="):
        chip.click()
        browser.wait(f"return document.querySelectorAll(arguments[0]).length {compared} arguments[1]", points, before)

    from selenium.webdriver import ActionChains

    place = browser.all(points)[0]
    browser.run("arguments[0].scrollIntoView({block: 'center'})", place)
    ActionChains(browser.driver).move_to_element(place).perform()
    browser.wait("return document.querySelector('#vg-tooltip-element.visible')?.textContent.includes('median ms')")
    assert browser.complaints() == []
