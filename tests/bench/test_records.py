"""The folder of a run: whose it is, what it keeps, and of what code."""

import json
import os
from pathlib import Path

import pytest

import otspec
import otspec.solvers
from otspec import DataError
from otspec.bench.code import digest, solver_digest, sources
from otspec.bench.records import RecordFolder
from otspec.bench.solvers.summary import summarise
from tests.bench.records import record_of


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
    folder.close()
    log = tmp_path / "results.jsonl"
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
