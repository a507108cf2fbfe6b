import json
from pathlib import Path

import pytest

import otspec
import otspec.solvers
from otspec import DataError
from otspec.bench.code import digest, solver_digest, sources
from otspec.bench.records import RecordFolder
from otspec.bench.solvers.cells import Cell
from otspec.bench.solvers.summary import Request
from tests.processes import held

pytest.importorskip("pyarrow")


def test_refuses_the_folder_of_another_run_and_says_what_differs(tmp_path: Path) -> None:
    RecordFolder(tmp_path, {"data": "llama3", "seed": 0}).close()
    with pytest.raises(DataError, match="holds another run: its seed is 0, yours 1; give --out a new folder"):
        RecordFolder(tmp_path, {"data": "llama3", "seed": 1})


def test_refuses_a_folder_with_something_else_in_it(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("keep me")
    with pytest.raises(DataError, match="holds something that is not a benchmark run"):
        RecordFolder(tmp_path, {})
    assert (tmp_path / "thesis.tex").read_text() == "keep me"


def test_refuses_a_file_in_place_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    with pytest.raises(DataError, match="not a benchmark run"):
        RecordFolder(tmp_path / "out", {})


@pytest.mark.parametrize(("name", "content"), [("run.json", "{"), ("results.jsonl", '{"k": 1\n')])
def test_refuses_a_damaged_folder(tmp_path: Path, name: str, content: str) -> None:
    RecordFolder(tmp_path, {}).close()
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match="damaged"):
        RecordFolder(tmp_path, {})


HOLD = """
import sys
from pathlib import Path
from otspec.bench.records import RecordFolder

folder = RecordFolder(Path(sys.argv[1]), {})
print("held", flush=True)
sys.stdin.read()
"""


def test_a_folder_belongs_to_one_process_and_is_free_again_when_that_is_killed(tmp_path: Path) -> None:
    with held(HOLD, tmp_path / "run") as process:
        message = f"run is in use by process {process.pid} on .*; wait until it has ended"
        with pytest.raises(DataError, match=message):
            RecordFolder(tmp_path / "run", {})
    RecordFolder(tmp_path / "run", {}).close()


def test_a_folder_that_is_refused_is_left_to_others(tmp_path: Path) -> None:
    RecordFolder(tmp_path, {"seed": 0}).close()
    with pytest.raises(DataError, match="another run"):
        RecordFolder(tmp_path, {"seed": 1})
    RecordFolder(tmp_path, {"seed": 0}).close()


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
    assert [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()] == [
        {"solver": "kseq", "position": 0},
        {"solver": "lp", "position": 1},
    ]


def test_a_lock_that_an_interrupt_left_alone_is_no_run_of_others(tmp_path: Path) -> None:
    (tmp_path / ".lock").write_text("")
    RecordFolder(tmp_path, {}).close()


def test_what_was_asked_for_outlives_an_interrupt_and_a_smaller_run(tmp_path: Path) -> None:
    cell, other = Cell(10, 2, "lp"), Cell(10, 3, "lp")
    for positions in (50, 3):
        folder = RecordFolder(tmp_path, {})
        cells = {"data": [""], "k": [10], "n": [2], "solver": ["lp"]}
        folder.begin({"command": "otspec bench", "positions": positions, "cells": cells})
        folder.close()
    folder = RecordFolder(tmp_path, {})
    requests = list(map(Request.of, folder.runs))
    assert [one.positions for one in requests if one.covers(cell)] == [50, 3]
    assert not any(one.covers(other) for one in requests)
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
