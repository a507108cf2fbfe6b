"""Reports of all three benchmarks, from records that nobody measured: tables, pictures and the page agree."""

from pathlib import Path
from typing import Any

from otspec.bench.report import KINDS, PAGE, TEXT, kind_of, pictures_of, write
from otspec.bench.solvers.cells import Cell
from otspec.bench.stored import StoredRun
from otspec.extras import installed
from otspec.reporting.charts import rows_of
from tests.bench.records import CODE, record_of, recorded_trees, solved, stored
from tests.each import each
from tests.pages import Reader

HERE = [kind for kind in KINDS if kind != "decoding" or (installed("torch") and installed("transformers"))]


def verified(position: int, rule: str, data: str) -> dict[str, Any]:
    """A tree of a rule; nested accepts a tenth of a token more."""
    more = 0.1 if rule == "nested" else 0.0
    reach = [0.5 + more, 0.1 + 0.01 * position]
    place = {"data": data, "rule": rule, "position": position, "prompt": position}
    return record_of("paths", **place, accepted=sum(reach), reach=reach)


def run_of(kind: str, path: Path) -> StoredRun:
    """Six positions, trees or prompts of a few cells."""
    path.mkdir()
    if kind == "solvers":
        cells = [Cell(k, 2, one, data) for one in ("lp", "kseq") for k in (5, 9) for data in "ab"]
        records = [solved(cell, at, 0.001 * cell.k, acceptance=0.5 + 0.01 * at) for at in range(6) for cell in cells]
        grid = {"data": ["a", "b"], "k": [5, 9], "n": [2], "solver": ["lp", "kseq"]}
        return stored(path, kind, records, {"cells": grid}, data={"a": 1, "b": 2})
    if kind == "paths":
        records = [verified(at, rule, data) for at in range(6) for rule in ("interval", "nested") for data in "ab"]
        data = {name: recorded_trees(target=[f"{name}-7B"]) for name in "ab"}
        data["b"]["measured_by"] = CODE | {"code": "y"}
        return stored(path, kind, records, {"reference": "interval"}, data=data)
    from tests.bench.decoding.fakes import GENERATE, INTERVAL, NESTED, record

    records = [record(cell, at, 9 + at, 4) for at in range(6) for cell in (GENERATE, NESTED, INTERVAL)]
    return stored(path, kind, records, {"reference": "interval"})


@each(kind=HERE)
def test_a_report_is_written_whole(kind: str, tmp_path: Path) -> None:
    run, declared = run_of(kind, tmp_path / kind), kind_of(kind)
    report: Any = declared.report(run)
    for name in declared.pictures(run.identity):
        (run.path / name).write_text("of earlier records")
    write(report, run, declared.pictures(run.identity))
    drawn = set(pictures_of(report))
    assert {path.name for path in run.path.iterdir()} == {TEXT, PAGE, *drawn}
    assert set(pictures_of(report)) <= set(declared.pictures(run.identity))
    text = (run.path / TEXT).read_text()
    assert text.startswith("# ")
    assert all(table.markdown() in text for table in report.tables)
    assert all(f"![{name}]({name})" in text for name in drawn)
    assert "Measured on: P" in text
    assert {one.title for one in report.screen} <= {one.title for one in report.tables}
    shown = [[tuple(row) for row in rows] for rows in Reader((run.path / PAGE).read_text()).tables]
    assert sorted(shown) == sorted([one.header, *one.rows] for one in report.tables)
    # Pictures are of the page's charts, and have the key of what they show.
    on_page = [chart for section in report.sections for group in section.groups for chart in group.charts]
    for parts in pictures_of(report).values():
        for part in parts:
            charts = [chart for group in part.groups for chart in group.charts]
            assert all(chart in on_page for chart in charts)
            assert set(part.series) == {row["series"] for chart in charts for row in rows_of(chart)} & set(part.series)
            assert part.series
    assert declared.report(StoredRun(run.path, run.identity, run.runs, [])) is None
