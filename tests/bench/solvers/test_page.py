"""report.html: one file that loads nothing, with the figures of report.md; and what a browser makes of it."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from otspec.bench import Cell
from otspec.bench.records import Record
from otspec.bench.solvers.summary import Optima, Summary, optima, summarise
from otspec.bench.solvers.tables import failures_table, overview_table, results_table
from otspec.reporting.page import PACKAGES, Section, lacking, sort_key, write_page
from otspec.reporting.style import DARK, HUES, LIGHT
from otspec.reporting.tables import TextTable, literal
from tests.pages import Browser, Reader, charts_of

EVIL = "mine:</script><script>boom()</script><b>&\"'`<!--"
"""A name that would break out of whatever is not escaped."""


def records(cell: Cell, count: int, status: str = "OPTIMAL", ms: float = 1.0, **figures: Any) -> list[Record]:
    """So many positions of a cell, the last one with the status."""
    rng = np.random.default_rng([cell.k, cell.n])
    found = []
    for position in range(count):
        said = status if position == count - 1 else "OPTIMAL"
        solved = said in ("OPTIMAL", "LOSSY")
        plan = {"acceptance": 0.5 + 0.01 * position, "gap": 1e-16, "deviation": 0.0} if solved else {}
        about = {"data": cell.data, "k": cell.k, "n": cell.n, "solver": cell.solver, "position": position}
        time = {"wall_s": ms / 1000 * float(rng.uniform(0.9, 1.1)), "optimum": 0.6 + 0.01 * position}
        found.append({**about, **time, "status": said, "solved": solved, "message": EVIL, **plan, **figures})
    return found


def held() -> list[tuple[Cell, list[Record]]]:
    """Two values of k and n, a lower bound, a solver that gave up, one that refuses, and a name full of markup."""
    return [
        (Cell(10, 2, "interval"), records(Cell(10, 2, "interval"), 4)),
        (Cell(10, 2, "lp"), records(Cell(10, 2, "lp"), 4, ms=30)),
        (Cell(10, 2, EVIL), records(Cell(10, 2, EVIL), 4, ms=2)),
        (Cell(10, 3, "interval"), records(Cell(10, 3, "interval"), 4)),
        (Cell(10, 3, "lp"), records(Cell(10, 3, "lp"), 3, "LIMIT", ms=400)),
        (Cell(0, 2, "interval"), records(Cell(0, 2, "interval"), 4, ms=3)),
        (Cell(0, 2, "lp"), records(Cell(0, 2, "lp"), 2, "BUDGET", ms=20_000)),
        (Cell(0, 3, "interval"), records(Cell(0, 3, "interval"), 4, ms=3)),
        (Cell(0, 3, "lp"), records(Cell(0, 3, "lp"), 1, "LIMIT")),
    ]


def known() -> Optima:
    return optima([record for _, mine in held() for record in mine])


def summaries() -> list[Summary]:
    return [summarise(cell, mine, 4, known()) for cell, mine in held()]


def tables(shown: list[Summary]) -> list[TextTable]:
    failures = failures_table(shown)
    assert failures is not None
    return [overview_table(shown, {}, "llama3"), results_table(shown, "llama3"), failures]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of `summaries`."""
    if reason := lacking():
        pytest.skip(reason)
    from otspec.bench.solvers.charts import chart_groups, series_of

    shown = summaries()
    part = Section("llama3", series_of(shown), chart_groups(shown, known()), tables(shown))
    about = [f"Measured on: {EVIL}.", f"Measured by:\n\n- 2026: `otspec bench {EVIL.replace('`', '')}`"]
    path = tmp_path_factory.mktemp("page") / "report.html"
    write_page(path, f"Solvers {EVIL}", about, [part])
    return path


def test_the_page_is_one_file_that_loads_nothing(page: Path) -> None:
    found = Reader(page.read_text())
    loading = [
        (tag, attrs) for tag, attrs in found.elements if attrs.keys() & {"src", "href", "srcset", "data", "action"}
    ]
    assert loading == []
    assert not {tag for tag, _ in found.elements} & {"link", "img", "iframe", "object", "embed", "base"}
    metas = {attrs.get("http-equiv"): attrs.get("content") for tag, attrs in found.elements if tag == "meta"}
    policy = metas["Content-Security-Policy"]
    assert policy is not None
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


def test_the_page_has_the_tables_of_the_report_word_by_word(page: Path) -> None:
    found = Reader(page.read_text()).tables
    for shown, table in zip(found, tables(summaries()), strict=True):
        assert [tuple(row) for row in shown] == [table.header, *table.rows]
        for row in shown[1:]:
            written = " | ".join(literal(cell).replace("|", "\\|") for cell in row)
            assert f"| {written} |" in table.markdown()


def test_charts_hold_every_point_with_its_interval_and_open_ends(page: Path) -> None:
    (settings, best, *charts), shown = charts_of(page), summaries()
    rows = [chart["data"]["values"] for chart in charts]
    assert len(settings["data"]["values"]) == sum(not one.refused for one in shown)
    assert {row["x"]: row["y"] for row in best["data"]["values"]} == {
        f"({k or 'V'}, {n})": pytest.approx(np.mean([value for key, value in known().items() if key[1:3] == (k, n)]))
        for k in (10, 0)
        for n in (2, 3)
    }
    panels = [("n", 2), ("n", 3), ("k", 10), ("k", 0)]  # over k twice, then over n
    inside = [[one for one in shown if getattr(one.cell, letter) == value] for letter, value in panels]
    assert [len(one) for one in rows[:4]] == [sum(not one.refused for one in mine) for mine in inside]
    for group in (rows[4:8], rows[8:]):
        assert [len(one) for one in group] == [sum(one.plans.acceptance is not None for one in mine) for mine in inside]

    times = {(row["series"], row["x"]): row for row in rows[0]}
    assert len(times) == 5
    assert [place for place, row in times.items() if row["open"]] == [("lp (suboptimal)", "V")]
    interval = times["interval (suboptimal)", "10"]
    assert (interval["low"], interval["y"], interval["high"]) == shown[0].times.quartiles
    accepted = {(row["series"], row["x"]): row for row in rows[5]}
    assert [place for place, row in accepted.items() if row["part"]] == [("lp (suboptimal)", "10")]
    interval = accepted["interval (suboptimal)", "10"]
    assert interval["y"] == shown[3].plans.acceptance
    assert interval["high"] - interval["y"] == pytest.approx(shown[3].plans.acceptance_error)
    lacks = next(row for row in rows[9] if row["series"].startswith("lp"))
    assert lacks["y"] == pytest.approx(-0.1)
    for chart in charts:
        scale = chart["layer"][0]["encoding"]["color"]["scale"]
        colours = dict(zip(scale["domain"], scale["range"], strict=True))
        assert colours["interval (suboptimal)"] == HUES["blue"]
        assert colours["lp (suboptimal)"] == LIGHT.ink


def test_figures_sort_by_their_first_number() -> None:
    cells = (
        ">= 1,001 (0%)",
        "0.92 (17%)",
        "1.65 [1.55, 1.79]",
        "-0.083 [-0.480, +0.282]",
        "2e-16",
        "50/50",
        "refused",
        "-",
    )
    assert [sort_key(cell) for cell in cells] == ["1001", "0.92", "1.65", "-0.083", "2e-16", "50", "", ""]


def test_where_the_extra_is_missing_a_line_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("otspec.extras.installed", lambda package: package not in PACKAGES)
    assert lacking() == 'vl_convert, jinja2 are not installed: pip install "otspec-toolkit[report]"'
    monkeypatch.setattr("otspec.extras.installed", lambda package: package != "vl_convert")
    assert lacking() == 'vl_convert is not installed: pip install "otspec-toolkit[report]"'
    monkeypatch.setattr("otspec.extras.installed", lambda package: True)
    assert lacking() is None


POINTS = "[data-chart='{}'] path[aria-roledescription='point']"


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1280, "dark"), (360, "light")])
def test_a_browser_draws_every_point_and_loads_nothing(page: Path, browser: Browser, width: int, scheme: str) -> None:
    browser.open(page, width, scheme)
    assert browser.complaints() == []
    assert browser.run("return performance.getEntriesByType('resource').map((one) => one.name)") == []
    for at, chart in enumerate(charts_of(page)):
        rows = chart["data"]["values"]
        assert len(browser.all(POINTS.format(at))) == len(rows) + sum(row.get("open", False) for row in rows), at
    assert browser.run("return document.documentElement.scrollWidth") <= width
    widths = browser.run("return [...document.querySelectorAll('svg')].map((one) => one.getBoundingClientRect().right)")
    assert max(widths) <= width
    colours = {"light": ("rgb(255, 255, 255)", LIGHT.ink), "dark": ("rgb(21, 24, 28)", DARK.ink)}[scheme]
    assert browser.run("return getComputedStyle(document.body).backgroundColor") == colours[0]
    letters = "[...document.querySelectorAll('.role-axis-label text')].map((one) => one.getAttribute('fill'))"
    assert set(browser.run(f"return {letters}")) == {colours[1]}


def test_a_click_on_a_header_sorts(page: Path, browser: Browser) -> None:
    browser.open(page)
    table = "document.querySelectorAll('table')[1]"
    rows = f"return [...{table}.tBodies[0].rows].map((row) => [...row.cells].map((cell) => cell.textContent))"
    before = browser.run(rows)
    mean = browser.run(f"return {table}").find_elements("css selector", "th button")[2]
    for click, sign in ((1, 1), (2, -1)):
        mean.click()
        after = browser.run(rows)
        assert after != before
        assert sorted(after) == sorted(before)  # whole rows move
        keys = [sort_key(row[2]) for row in after]
        known = [float(key) for key in keys if key]
        assert known == sorted(known, key=lambda value: sign * value)
        assert keys[len(known) :] == [""], click  # refused, at the end either way
    assert browser.run(f"return {table}.tHead.querySelectorAll('[aria-sort=descending]').length") == 1
    browser.run(f"return {table}").find_elements("css selector", "th button")[0].click()
    assert [row[0] for row in browser.run(rows)] == ["(10, 2)"] * 3 + ["(10, 3)"] * 2 + ["(V, 2)"] * 2 + ["(V, 3)"] * 2


def test_series_are_switched_off_and_a_hover_tells_the_figures(page: Path, browser: Browser) -> None:
    browser.open(page)
    (chip,) = [one for one in browser.all(".series button") if one.text.endswith("lp (suboptimal)")]
    before = len(browser.all(POINTS.format(0)))
    chip.click()
    browser.wait("return document.querySelectorAll(arguments[0]).length < arguments[1]", POINTS.format(0), before)
    chip.click()
    browser.wait("return document.querySelectorAll(arguments[0]).length === arguments[1]", POINTS.format(0), before)

    from selenium.webdriver import ActionChains

    place = browser.all(POINTS.format(0))[0]
    browser.run("arguments[0].scrollIntoView({block: 'center'})", place)
    ActionChains(browser.driver).move_to_element(place).perform()
    browser.wait("return document.querySelector('#vg-tooltip-element.visible')?.textContent.includes('median ms')")
    assert browser.complaints() == []


def test_light_and_dark_follow_the_user(page: Path, browser: Browser) -> None:
    browser.open(page)
    browser.prefer("dark")
    browser.wait("return document.documentElement.dataset.drawn === 'dark'")
    browser.all("#theme")[0].click()
    browser.wait("return document.documentElement.dataset.drawn === 'light'")
    assert browser.run("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert browser.complaints() == []
