"""Folders of runs on disk: parts that are one, others that are not, and those that are not as a run leaves them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from otspec import DataError, ProblemError
from otspec.bench.comparison import compare
from otspec.bench.records import RecordFolder
from otspec.bench.report import KINDS, about, kind_of
from otspec.bench.stored import StoredRun, joined, read_run
from tests.bench.records import asked_of, identity_of, record_of, recorded_trees, stored

pytest.importorskip("torch")

JUNK: tuple[Any, ...] = (
    *(None, "", "x", "1", "\ud800", True, -1, 0, 2.5, 2**70, float("nan"), float("inf"), -1e308),
    *([], {}, [{}], [None], [-1], {"a": {"b": []}}, ["x"], "9/3", "interval"),
)
CASES = 120
ALL_CASES = 1000


def write_run(path: Path, about: Any, records: list[Any]) -> None:
    path.mkdir(parents=True)
    (path / "run.json").write_text(json.dumps(about))
    (path / "results.jsonl").write_text("".join(json.dumps(one) + "\n" for one in records))


def good(benchmark: str, prompt: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    place = "prompt" if benchmark == "decoding" else "position"
    records = [record_of(benchmark, **{place: prompt + at}) for at in range(3)]
    return identity_of(benchmark) | {"runs": [asked_of(benchmark)]}, records


def spoil(rng: np.random.Generator, value: Any) -> Any:
    """Somewhere in it something is missing, or something else stands there."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        name = str(rng.choice(list(value)))
        if rng.random() < 0.25:
            return {other: each for other, each in value.items() if other != name}
        return value | {name: spoil(rng, value[name])}
    if isinstance(value, list) and value and rng.random() < 0.9:
        at = int(rng.integers(len(value)))
        return [spoil(rng, each) if index == at else each for index, each in enumerate(value)]
    return JUNK[int(rng.integers(len(JUNK)))]


@pytest.mark.parametrize("benchmark", KINDS)
def test_malformed_runs_are_refused_in_a_line(benchmark: str, tmp_path: Path, pytestconfig: pytest.Config) -> None:
    rng = np.random.default_rng(KINDS.index(benchmark))
    refused, lines = 0, set[int]()
    cases = (ALL_CASES if pytestconfig.getoption("--slow") else CASES) // len(KINDS)
    for case in range(cases):
        here = tmp_path / str(case)
        bad_about, records = good(benchmark, 3)
        if rng.random() < 0.4:
            bad_about = spoil(rng, bad_about)
        else:
            records = spoil(rng, records)
        write_run(here / "good", *good(benchmark, 0))
        write_run(here / "bad", bad_about, records if isinstance(records, list) else [records])
        try:
            run = read_run(here / "bad")
            kind_of(benchmark).report(run)
            about(run, "here")
            compare(read_run(here / "good"), run).table()
            joined([read_run(here / "good"), run])
        except (DataError, ProblemError) as error:
            refused += 1
            lines.add(str(error).count("\n"))
        for name in ("good", "bad"):  # whatever came of it, what is right can be gone on with
            try:
                RecordFolder(here / name, identity_of(benchmark)).close()
            except DataError:
                assert name == "bad"
    assert refused > cases // 2
    assert lines == {0}


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
    write_run(tmp_path / "bad", good("solvers", 0)[0] | change, records)
    with pytest.raises(DataError, match=message):
        read_run(tmp_path / "bad")


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
    report = kind_of("solvers").report(found)
    assert report is not None
    assert report.machine == "P or Q, 1 or 2 worker(s)"


def test_recordings_of_others_join_whatever_code_measured_them() -> None:
    theirs = recorded_trees("2") | {"measured_by": {"python": "3.14", "versions": {"numpy": "3"}, "code": "y"}}
    found = joined([run_of("a", "paths", {}), run_of("b", "paths", {"data": "e"}, data={"e": theirs})])
    assert list(found.identity["data"]) == ["d", "e"]
    report = kind_of("paths").report(found)
    assert report is not None
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
