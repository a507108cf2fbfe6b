"""The folder of a run: whose it is, what it keeps, what is damaged in it, and runs that are parts of one."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

import otspec
import otspec.solvers
from otspec import DataError
from otspec.bench.code import digest, solver_digest, sources
from otspec.bench.records import RecordFolder
from otspec.bench.report import kind_of
from otspec.bench.solvers.summary import summarise
from otspec.bench.stored import StoredRun, joined, read_run
from tests.bench.records import identity_of, record_of, recorded_trees, request_of, stored


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("thesis.tex", "keep me", "holds something that is not a benchmark run"),
        ("", "", "not a benchmark run"),
        ("run.json", "{", "damaged"),
        ("results.jsonl", '{"k": 1\n', "damaged"),
    ],
)
def test_refuses_what_is_no_folder_of_a_run(name: str, content: str, message: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    if message == "damaged":
        RecordFolder(out, {}).close()
    elif name:
        out.mkdir()
    (out / name).write_text(content)
    with pytest.raises(DataError, match=message):
        RecordFolder(out, {})
    assert (out / name).read_text() == content


def test_a_folder_belongs_to_one_run_at_a_time(tmp_path: Path) -> None:
    folder = RecordFolder(tmp_path / "run", {})
    with pytest.raises(DataError, match=f"run is in use by process {os.getpid()} on .*; wait until it has ended"):
        RecordFolder(tmp_path / "run", {})
    folder.close()
    RecordFolder(tmp_path / "run", {}).close()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / ".lock").write_text("")  # that an interrupt left alone is no run of others
    RecordFolder(tmp_path / "other", {}).close()


def test_what_is_measured_twice_counts_once_and_the_later_stands(tmp_path: Path) -> None:
    folder = RecordFolder(tmp_path, {})
    for position, wall_s in ((0, 1.0), (1, 2.0), (0, 3.0)):
        folder.append({"solver": "lp", "position": position, "wall_s": wall_s})
    assert [(one["position"], one["wall_s"]) for one in folder.records] == [(0, 3.0), (1, 2.0)]
    log = tmp_path / "results.jsonl"
    assert len(log.read_text().splitlines()) == 3  # whatever becomes of the process
    folder.close()
    assert len(log.read_text().splitlines()) == 2
    log.write_text(log.read_text() * 2)  # as two runs at once left it, before folders were locked
    folder = RecordFolder(tmp_path, {})
    assert len(folder.records) == 2
    folder.close()
    assert len(log.read_text().splitlines()) == 2


def test_what_is_forgotten_is_gone_from_the_disk(tmp_path: Path) -> None:
    folder = RecordFolder(tmp_path, {})
    for solver in ("lp", "kseq"):
        folder.append({"solver": solver, "position": 0})
    assert folder.forget(lambda record: record["solver"] == "lp") == 1
    folder.append({"solver": "lp", "position": 1})
    folder.close()
    lines = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()]
    assert lines == [{"solver": "kseq", "position": 0}, {"solver": "lp", "position": 1}]


def test_what_was_asked_for_outlives_an_interrupt_and_a_smaller_run(tmp_path: Path) -> None:
    cells = {"data": [""], "k": [10], "n": [2], "solver": ["lp"]}
    for positions in (50, 3):
        folder = RecordFolder(tmp_path, {})
        folder.begin({"command": "otspec bench", "positions": positions, "cells": cells})
        folder.close()
    folder = RecordFolder(tmp_path, {})
    rows = summarise([record_of("solvers", data="", k=10, n=n) for n in (2, 3)], folder.runs)
    assert [row["wanted"] for row in rows] == [50, 1]  # of the second nothing was asked
    assert [run["positions"] for run in folder.runs] == [50, 3]
    folder.close()


def test_the_digest_of_code_is_of_every_file_and_its_place(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    found = []
    for name, text in (("folder/a.py", "1"), ("folder/a.py", "2"), ("b.py", "2"), ("b.txt", "2")):
        (tmp_path / name).write_text(text)
        found.append(digest(sources(tmp_path)))
    assert len(set(found)) == 3
    assert found[2] == found[3]  # no source
    package = {place for place, _ in sources(*map(Path, (*otspec.__path__, *otspec.solvers.__path__)))}
    assert {"certificate.py", "kernels/majorant.py", "interval.py"} <= package
    assert solver_digest("interval") == ""


UNPLACED = {name: value for name, value in record_of("solvers", position=8).items() if name != "k"}


@pytest.mark.parametrize(
    ("change", "records", "message"),
    [
        ({}, [record_of("solvers"), UNPLACED], r"results.jsonl, line 2 is damaged: k: field required"),
        ({}, [record_of("solvers", wall_s="x")], 'line 1 is damaged: wall_s: input should be .* number, and is "x"'),
        ({"runs": [{}]}, [record_of("solvers")], r"runs.0: command: field required"),
        ({"processor": {"a": 1}}, [record_of("solvers")], r"processor"),
        ({"data": 5}, [record_of("solvers")], r"data: input should be a valid dictionary, and is 5"),
    ],
)
def test_what_is_missing_or_wrong_is_named(
    change: dict[str, Any], records: list[Any], message: str, tmp_path: Path
) -> None:
    about = identity_of("solvers") | {"runs": [request_of("solvers")]} | change
    (tmp_path / "run.json").write_text(json.dumps(about))
    (tmp_path / "results.jsonl").write_text("".join(json.dumps(one) + "\n" for one in records))
    with pytest.raises(DataError, match=message):
        read_run(tmp_path)


def run_of(name: str, benchmark: str, *records: dict[str, Any], **identity: Any) -> StoredRun:
    """A run whose records differ in these fields from one that is right."""
    return stored(name, benchmark, [record_of(benchmark, **changes) for changes in records], **identity)


def test_parts_of_a_run_are_one_and_what_is_finished_stands() -> None:
    late, first = {"position": 1, "status": "BUDGET", "solved": False}, {"position": 0, "wall_s": 2.0}
    one = run_of("a", "solvers", {"position": 0, "wall_s": 1.0}, late)
    two = run_of("b", "solvers", first, {"position": 1}, {"position": 2}, processor="Q", jobs=2)
    found = joined([one, two])
    rows = [(row["position"], row["wall_s"], row["status"]) for row in found.records]
    assert rows == [(0, 1.0, "OPTIMAL"), (1, 0.5, "OPTIMAL"), (2, 0.5, "OPTIMAL")]
    assert (found.path, found.identity["processor"], found.identity["jobs"]) == (Path("a"), ["P", "Q"], [1, 2])
    assert len(found.runs) == 2
    assert one.identity["processor"] == "P"
    report: Any = kind_of("solvers").report(found)
    assert report.machine == "P or Q, 1 or 2 worker(s)"


def test_recordings_of_others_join_whatever_code_measured_them() -> None:
    theirs = recorded_trees("2") | {"measured_by": {"python": "3.14", "versions": {"numpy": "3"}, "code": "y"}}
    found = joined([run_of("a", "paths", {}), run_of("b", "paths", {"data": "e"}, data={"e": theirs})])
    assert (list(found.identity["data"]), found.identity["processor"]) == (["d", "e"], "P")
    report: Any = kind_of("paths").report(found)
    assert any("Recordings" in table.title and len(table.rows) == 2 for table in report.tables)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (run_of("b", "paths", {}, seed=1), "a and b are not of one run: seed is 0 in the first, 1 in the second; name"),
        (run_of("b", "paths", {}, budget_s=8.0), "budget_s is 9.0 in the first, 8.0"),
        (run_of("b", "paths", {}, data={"d": recorded_trees("2")}), "data.d.sha256|sha256 is 1 in the first, 2"),
        (run_of("b", "decoding", {}), "benchmark is paths in the first, decoding in the second"),
    ],
)
def test_what_is_of_another_run_is_refused_by_name(other: StoredRun, message: str) -> None:
    with pytest.raises(DataError, match=message):
        joined([run_of("a", "paths", {}), other])
