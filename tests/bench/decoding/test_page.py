"""report.html of the decoding benchmark."""

from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch")

from otspec.bench.decoding.cells import DecodingCell
from otspec.bench.decoding.charts import chart_groups, series_of
from otspec.bench.decoding.labels import label, whole_label
from otspec.bench.decoding.summary import DecodingSummary, summarise
from otspec.bench.decoding.tables import decoding_table, efficiency_table, speed_up_table
from otspec.reporting.page import Section, lacking, write_page
from otspec.reporting.tables import TextTable
from tests.bench.decoding.fakes import GENERATE, INTERVAL, NESTED, VANILLA, record
from tests.pages import Browser, Reader, charts_of

BLOCK, LOOKUP = DecodingCell("block", paths=1, depth=8), DecodingCell("prompt-lookup", paths=2, depth=8)
CELLS = [VANILLA, GENERATE, BLOCK, LOOKUP, NESTED, INTERVAL, replace(NESTED, paths=3), replace(NESTED, drafter="fr:20")]


@pytest.fixture(scope="module")
def summaries() -> list[DecodingSummary]:
    """Six prompts of every cell, so that there are intervals."""
    return summarise([record(cell, at, 8 + at + cell.paths, 4, 0.5 + 0.1 * at) for at in range(6) for cell in CELLS])


def tables(summaries: list[DecodingSummary]) -> list[TextTable]:
    return [
        speed_up_table(summaries, "s"),
        efficiency_table(summaries, "e"),
        decoding_table(summaries, "d", "interval"),
    ]


@pytest.fixture(scope="module")
def page(summaries: list[DecodingSummary], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of the summaries."""
    if reason := lacking():
        pytest.skip(reason)
    path = tmp_path_factory.mktemp("page") / "report.html"
    part = Section("Temperature 1", series_of(summaries), chart_groups(summaries), tables(summaries))
    write_page(path, "Decoding", [], [part])
    return path


def test_the_page_has_the_tables_of_the_report(page: Path, summaries: list[DecodingSummary]) -> None:
    for shown, table in zip(Reader(page.read_text()).tables, tables(summaries), strict=True):
        assert [tuple(row) for row in shown] == [table.header, *table.rows]


def test_charts_have_the_intervals_of_the_tables(page: Path, summaries: list[DecodingSummary]) -> None:
    efficiency, over_generate, over_vanilla, over_lookup, over_block, phases, drafters = charts_of(page)
    shown = {(label(one), one.cell.paths): one for one in summaries}
    rows = {(row["series"], row["x"]): row for row in efficiency["data"]["values"]}
    assert len(rows) == 4 + 2 + 1  # of two paths, block at each K, nested of three
    for (name, place), row in rows.items():
        one = shown[name, 1 if name.startswith("block") else int(place[-1])].efficiency
        assert (row["y"], row["low"], row["high"]) == (one.value, one.low, one.high)
    for chart, baseline in zip(
        (over_generate, over_vanilla, over_lookup, over_block),
        ("generate", "vanilla", "prompt-lookup", "block"),
        strict=True,
    ):
        found = {row["y"]: row for row in chart["data"]["values"]}
        expected = {
            whole_label(one): estimate
            for one in summaries
            for cell, estimate in one.speed_ups.items()
            if cell.method == baseline
        }
        assert found.keys() == expected.keys()
        for name, row in found.items():
            assert (row["x"], row["low"], row["high"]) == (
                expected[name].value,
                expected[name].low,
                expected[name].high,
            )
            assert row["hover"][f"over {baseline}"] == expected[name].shown(".2f")
    spent = sum(row["x"] for row in phases["data"]["values"] if row["series"] == "generate")
    (plain,) = [one for one in summaries if one.cell == GENERATE]
    assert spent == pytest.approx(plain.ms_per_token)
    assert {row["series"] for row in drafters["data"]["values"]} == {"nested", "nested (drafted by fr:20)"}


def test_prompts_too_few_for_intervals_have_points_without(tmp_path: Path) -> None:
    if reason := lacking():
        pytest.skip(reason)
    few = summarise([record(cell, 0, 9, 4) for cell in CELLS])
    write_page(tmp_path / "p.html", "t", [], [Section("s", series_of(few), chart_groups(few), [])])
    efficiency = charts_of(tmp_path / "p.html")[0]["data"]["values"]
    assert all(row["low"] is row["high"] is None and row["y"] == 9 / 4 for row in efficiency)
    failed = summarise([record(NESTED, 0, 0, 0, message="too large")])
    write_page(tmp_path / "q.html", "t", [], [Section("s", series_of(failed), chart_groups(failed), tables(failed))])
    assert charts_of(tmp_path / "q.html") == []


@pytest.mark.parametrize("width", [1280, 360])
def test_a_browser_draws_it(page: Path, browser: Browser, width: int) -> None:
    browser.open(page, width)
    assert browser.complaints() == []
    for at, chart in enumerate(charts_of(page)):
        bars = chart["layer"][0]["mark"]["type"] == "bar"
        found = browser.all(f"[data-chart='{at}'] path[aria-roledescription='{'bar' if bars else 'point'}']")
        assert len(found) == len(chart["data"]["values"])
    assert browser.run("return document.documentElement.scrollWidth") <= width
