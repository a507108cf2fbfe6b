"""Parts of a run, measured apart and joined: the rows of a run that nothing disturbed."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from otspec import DataError
from otspec.bench import Benchmark, Cell, run
from otspec.bench.kinds import kind_of
from otspec.bench.merging import Merged, merge
from otspec.bench.records import Record, RecordFolder, key_of
from otspec.bench.report import about
from otspec.bench.shards import WHOLE, Shard
from otspec.bench.solvers import driver
from otspec.bench.stored import read_run
from tests import processes
from tests.bench.fakes import InProcess, SmallSource
from tests.bench.records import CODE, asked_of, identity_of, record_of, recorded_trees

pytest.importorskip("pyarrow")
CELLS = [Cell(4, n, solver) for n in (1, 2) for solver in ("max_flow", "interval", "kseq")]
POSITIONS = 4
TIMES = ("wall_s",)
"""What two runs of the same thing differ in."""


def asked(shard: Shard = WHOLE, **settings: Any) -> Benchmark:
    return Benchmark(CELLS, {"": SmallSource()}, POSITIONS, shard=shard, **settings)


def measure(path: Path, shard: Shard = WHOLE, **settings: Any) -> Path:
    benchmark = asked(shard, **settings)
    folder = RecordFolder(path, benchmark.identity)
    cells = {name: sorted({asdict(cell)[name] for cell in CELLS}) for name in ("data", "k", "n", "solver")}
    about = {"command": "c", "date": "d", "positions": POSITIONS, "cells": cells}
    folder.begin(about if shard == WHOLE else {**about, "shard": str(shard)})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("otspec.bench.solvers.driver.Worker", InProcess)
        run(benchmark, folder)
    folder.close()
    return path


def rows(path: Path) -> list[Record]:
    """What was measured, without times, in the order of what it is of."""
    lines = [json.loads(line) for line in (path / "results.jsonl").read_text().splitlines()]
    untimed = [{name: value for name, value in line.items() if name not in TIMES} for line in lines]
    return sorted(untimed, key=lambda line: json.dumps(line, sort_keys=True))


def joined(paths: list[Path], out: Path) -> Merged:
    merged = merge(paths, out)
    merged.folder.close()
    return merged


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nothing disturbed."""
    return measure(tmp_path_factory.mktemp("whole") / "run")


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The same in three parts, of which the second was killed in the middle, and run again."""
    folder = tmp_path_factory.mktemp("shards")
    killed(folder / "2", Shard(2, 3), after=3)
    return [measure(folder / str(number), Shard(number, 3)) for number in (1, 2, 3)]


def killed(path: Path, shard: Shard, after: int) -> None:
    """Measure a part until it has so many records, kill -9, and leave half a line as well."""

    def work(die: Callable[[], None]) -> None:
        benchmark = asked(shard)
        folder = RecordFolder(path, benchmark.identity)
        driver.Worker = InProcess  # type: ignore[misc,assignment]
        run(benchmark, folder, lambda steps: die() if len(folder.records) == after else None)

    processes.killed(work)
    log = path / "results.jsonl"
    assert len(log.read_text().splitlines()) == after
    log.write_text(log.read_text() + '{"data": "", "k": 4, "n"')


def test_shards_of_which_one_was_killed_have_the_rows_of_an_undisturbed_run_in_any_order(
    whole: Path, shards: list[Path], tmp_path: Path
) -> None:
    assert len(rows(whole)) == len(CELLS) * POSITIONS
    written = set()
    for number, order in enumerate(itertools.permutations(shards)):
        out = tmp_path / str(number)
        merged = joined(list(order), out)
        assert rows(out) == rows(whole)
        assert (merged.doubled, merged.machines, merged.absent) == (0, {}, [])
        written.add((out / "results.jsonl").read_bytes())
    assert len(written) == 1
    table = pytest.importorskip("pyarrow.parquet").read_table(tmp_path / "0" / "results.parquet")
    assert table.to_pylist() == read_run(tmp_path / "0").records


def test_a_merge_can_be_repeated_and_goes_on_where_it_stopped(whole: Path, shards: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    merged = joined(shards[:1], out)
    assert merged.absent == ["2/3", "3/3"]
    assert 0 < len(rows(out)) < len(rows(whole))
    joined(shards[1:], out)
    assert rows(out) == rows(whole)
    before = [(out / name).read_bytes() for name in ("results.jsonl", "run.json")]
    assert joined([*shards, out], out).doubled == len(rows(whole))
    assert [(out / name).read_bytes() for name in ("results.jsonl", "run.json")] == before
    two, three = (joined(parts, tmp_path / name).folder.path for name, parts in (("a", shards[:2]), ("b", shards[1:])))
    joined([three, two], tmp_path / "c")  # merges of merges that overlap
    assert (tmp_path / "c" / "results.jsonl").read_bytes() == before[0]


def test_a_whole_run_among_them_lacks_no_shard(whole: Path, shards: list[Path], tmp_path: Path) -> None:
    assert joined([whole, shards[0]], tmp_path / "out").absent == []
    assert joined([shards[0], whole], tmp_path / "other").absent == []


def test_overlapping_shards_count_once_and_the_order_does_not_decide_which(
    whole: Path, shards: list[Path], tmp_path: Path
) -> None:
    half = measure(tmp_path / "half", Shard(1, 2))
    written = set()
    for number, order in enumerate(itertools.permutations([half, *shards, whole])):
        if number % 17 == 0:
            out = tmp_path / str(number)
            merged = joined(list(order), out)
            assert rows(out) == rows(whole)
            assert merged.doubled == len(rows(whole)) + len(rows(half))
            written.add((out / "results.jsonl").read_bytes())
    assert len(written) == 1


def test_what_is_merged_can_be_measured_on(shards: list[Path], whole: Path, tmp_path: Path) -> None:
    out = joined(shards[:2], tmp_path / "out").folder.path
    before = read_run(out).records
    measure(out)
    assert rows(out) == rows(whole)
    after = {key_of(record): record for record in read_run(out).records}
    assert all(after[key_of(record)] == record for record in before)


def test_a_merge_that_was_killed_is_made_good_by_the_next(
    shards: list[Path], whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    joined(shards[:1], out)

    def die(self: RecordFolder) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(RecordFolder, "_rewrite", die)
        with pytest.raises(KeyboardInterrupt):
            merge(shards[1:], out)
    joined(shards[1:], out)
    assert rows(out) == rows(whole)


def folder_of(
    path: Path, identity: dict[str, Any], records: list[Record], benchmark: str = "decoding", **run: Any
) -> Path:
    """A folder as a run leaves it, of made records."""
    folder = RecordFolder(path, identity_of(benchmark, **identity))
    folder.begin(asked_of(benchmark, **run))
    for record in records:
        folder.append(record_of(benchmark, **record))
    folder.close()
    return path


def test_folders_of_different_runs_are_refused_by_the_name_of_the_field(tmp_path: Path) -> None:
    pytest.importorskip("torch")  # the records are of decoding
    identity = {
        "seed": 0,
        "code": "x",
        "versions": {"numpy": "2.4.5"},
        "data": {"d": {"sha256": "1"}},
        "processor": "P",
    }
    one = folder_of(tmp_path / "one", identity, [{"prompt": 0}])
    wrong: dict[str, dict[str, Any]] = {
        "seed is 0 in the first, 1 in the second": {"seed": 1},
        "code is x in the first, y in the second": {"code": "y"},
        "versions.numpy is 2.4.5 in the first, 2.4.6 in the second": {"versions": {"numpy": "2.4.6"}},
        "data.d.sha256 is 1 in the first, 2 in the second": {"data": {"d": {"sha256": "2"}}},
        "top_k is None in the first, 9 in the second": {"top_k": 9},
    }
    for number, (message, change) in enumerate(wrong.items()):
        other = folder_of(tmp_path / f"other{number}", identity | change, [{"prompt": 1}])
        with pytest.raises(DataError, match=f"one and .*other{number} are not of one run: {message}"):
            merge([one, other], tmp_path / "out")
        assert not (tmp_path / "out").exists()
    joined([one], tmp_path / "out")
    with pytest.raises(DataError, match="not of one run"):
        merge([other], tmp_path / "out")
    assert read_run(tmp_path / "out").records == [record_of("decoding", prompt=0)]
    joined([one], tmp_path / "out")  # and it is not left locked
    with pytest.raises(DataError, match=r"there is no run in .*nowhere"):
        merge([tmp_path / "nowhere"], tmp_path / "out")
    with pytest.raises(DataError, match=r"there is no run in .*new; name the folders to merge"):
        merge([tmp_path / "new"], tmp_path / "new")
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "thesis.tex").write_text("keep me")
    with pytest.raises(DataError, match="not a benchmark run"):
        merge([one], tmp_path / "thesis")


def table_of(path: Path, names: str, *, code: str = "x", sha256: str = "1", **changes: Any) -> Path:
    """A run of `otspec bench paths` on recordings of these names."""
    by = CODE | {"code": code, "versions": {"numpy": code}}
    data = {name: recorded_trees(sha256, target=[f"{name}-7B"]) | {"measured_by": by} for name in names}
    return folder_of(path, {"data": data, "processor": code} | changes, [{"data": name} for name in names], "paths")


def test_recordings_of_others_join_one_table_whatever_measured_them(tmp_path: Path) -> None:
    ours, theirs = table_of(tmp_path / "ours", "ab"), table_of(tmp_path / "theirs", "c", code="y")
    written = set()
    for name, order in (("one", [ours, theirs]), ("two", [theirs, ours])):
        joined(order, tmp_path / name)
        joined(order, tmp_path / name)  # as is all that it has seen
        written.add((tmp_path / name / "results.jsonl").read_bytes())
        run = read_run(tmp_path / name)
        assert {data: one["measured_by"]["code"] for data, one in run.identity["data"].items()} == {
            "a": "x",
            "b": "x",
            "c": "y",
        }
        assert run.identity["processor"] == ["x", "y"]
        report = kind_of("paths").report(run)
        assert report is not None
        (records,) = (table for table in report.tables if table.title == "Recordings")
        assert [row[:2] for row in records.rows] == [(name, f"{name}-7B") for name in "abc"]
        assert report.tables[0].header == ("rule", "a", "b", "c")
        (how, _) = about(run, "here")
        assert "a, b: Python 3.12, numpy x; sources x." in how
        assert "c: Python 3.12, numpy y; sources y." in how
    assert len(written) == 1


def test_recordings_that_cannot_be_compared_are_refused_by_name(tmp_path: Path) -> None:
    ours, out = table_of(tmp_path / "ours", "ab"), tmp_path / "out"
    wrong: dict[str, dict[str, Any]] = {
        "data.b.sha256 is 1 in the first, 2 in the second": {"sha256": "2"},
        "data.b.measured_by.code is x in the first, y in the second": {"code": "y"},
        "seed is 0 in the first, 1 in the second": {"seed": 1},
        "budget_s is 9.0 in the first, 1.0 in the second": {"budget_s": 1.0},
    }
    for number, (message, changes) in enumerate(wrong.items()):
        theirs = table_of(tmp_path / str(number), "bc", **changes)
        other = table_of(tmp_path / f"{number}c", "d")  # in between, and in agreement with both but for settings
        with pytest.raises(DataError, match=rf"ours and .*{number} are not of one run: {re.escape(message)}; merge"):
            merge([ours, theirs] if number > 1 else [ours, other, theirs], out)
    theirs = table_of(tmp_path / "new", "c")
    said = json.loads((theirs / "run.json").read_text())
    (theirs / "run.json").write_text(json.dumps(said | {"schema": 2}))
    with pytest.raises(DataError, match=r"new.run.json is of schema 2, and this otspec reads 1"):
        merge([ours, theirs], out)
    with pytest.raises(DataError, match="benchmark is paths in the first, solvers in the second"):
        merge([ours, folder_of(tmp_path / "solvers", {}, [{}], "solvers")], out)
    assert not out.exists()


def test_a_solver_that_was_edited_in_between_is_refused(tmp_path: Path) -> None:
    parts = [
        folder_of(tmp_path / code, {}, [{"solver": "mine:Solver", "position": at, "code": code}], "solvers")
        for at, code in enumerate("ab")
    ]
    with pytest.raises(DataError, match="the code of mine:Solver is a in the first, b in the second"):
        merge(parts, tmp_path / "out")


def test_machines_may_differ_and_are_named_and_both_go_on(tmp_path: Path) -> None:
    pytest.importorskip("torch")  # the records are of decoding
    machines = [{"processor": "P", "jobs": 2}, {"processor": "Q", "jobs": 2}, {"processor": "P", "jobs": 1}]
    parts = [
        folder_of(tmp_path / str(at), {"seed": 0, **machine}, [{"prompt": at}], shard=f"{at + 1}/3")
        for at, machine in enumerate(machines)
    ]
    assert joined([parts[0], parts[0]], tmp_path / "one").machines == {}
    out = tmp_path / "out"
    assert joined(parts[:2], out).machines == {"processor": ["P", "Q"]}
    assert joined(parts[2:], out).machines == {"jobs": [1, 2], "processor": ["P", "Q"]}
    assert [record["prompt"] for record in read_run(out).records] == [0, 1, 2]
    identity = identity_of("decoding", seed=0, processor="Q", jobs=1)
    RecordFolder(out, identity).close()
    assert read_run(out).identity["processor"] == ["P", "Q"]
    with pytest.raises(DataError, match=r"its processor is \['P', 'Q'\], yours R"):
        RecordFolder(out, {**identity, "processor": "R"})


def test_a_finished_record_stands_before_one_that_ran_out(tmp_path: Path) -> None:
    pytest.importorskip("torch")  # the records are of decoding
    finished = record_of("solvers", position=0, status="OPTIMAL", budget_s=1.0)
    late = record_of("solvers", position=1, status="BUDGET", solved=False, budget_s=9.0)
    early = {**late, "budget_s": 2.0}
    cut, uncut = (record_of("decoding", tokens=tokens) for tokens in (3, 64))
    for benchmark, first, second, best in (
        ("solvers", [{**finished, "status": "BUDGET", "budget_s": 5.0}, early], [finished, late], [finished, late]),
        ("decoding", [uncut], [cut], [uncut]),
    ):
        here = tmp_path / benchmark
        one, two = (folder_of(here / str(at), {}, part, benchmark) for at, part in enumerate((first, second)))
        for name, order in (("a", [one, two]), ("b", [two, one])):
            joined(order, here / name)
            assert read_run(here / name).records == best
