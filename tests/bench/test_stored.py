"""Several folders read as one run: parts of it, or others' data beside ours."""

from pathlib import Path
from typing import Any

import pytest

from otspec import DataError
from otspec.bench.kinds import kind_of
from otspec.bench.stored import StoredRun, joined
from tests.bench.records import asked_of, identity_of, record_of, recorded_trees

pytest.importorskip("pyarrow")


def stored(name: str, benchmark: str, *records: dict[str, Any], **identity: Any) -> StoredRun:
    mine = [record_of(benchmark, **changes) for changes in records]
    return StoredRun(Path(name), identity_of(benchmark, **identity), [asked_of(benchmark)], mine)


def test_parts_of_a_run_are_one_and_what_is_finished_stands() -> None:
    late = {"position": 1, "status": "BUDGET", "solved": False}
    one = stored("a", "solvers", {"position": 0, "wall_s": 1.0}, late)
    two = stored(
        "b", "solvers", {"position": 0, "wall_s": 2.0}, {"position": 1}, {"position": 2}, processor="Q", jobs=2
    )
    found = joined([one, two])
    assert [(row["position"], row["wall_s"], row["status"]) for row in found.records] == [
        (0, 1.0, "OPTIMAL"),
        (1, 0.5, "OPTIMAL"),
        (2, 0.5, "OPTIMAL"),
    ]
    assert (found.path, found.identity["processor"], found.identity["jobs"]) == (Path("a"), ["P", "Q"], [1, 2])
    assert len(found.runs) == 2
    assert one.identity["processor"] == "P"
    report = kind_of("solvers").report(found)
    assert report is not None
    assert report.machine == "P or Q, 1 or 2 worker(s)"


def test_recordings_of_others_join_whatever_code_measured_them() -> None:
    theirs = recorded_trees("2") | {"measured_by": {"python": "3.14", "versions": {"numpy": "3"}, "code": "y"}}
    found = joined([stored("a", "paths", {}), stored("b", "paths", {"data": "e"}, data={"e": theirs})])
    assert list(found.identity["data"]) == ["d", "e"]
    report = kind_of("paths").report(found)
    assert report is not None
    assert any("Recordings" in table.title and len(table.rows) == 2 for table in report.tables)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"seed": 1},
            "a and b are not of one run: seed is 0 in the first, 1 in the second; name what was measured with",
        ),
        ({"budget_s": 8.0}, "budget_s is 9.0 in the first, 8.0"),
        ({"data": {"d": recorded_trees("2")}}, "data.d.sha256|sha256 is 1 in the first, 2"),
    ],
)
def test_what_is_of_another_run_is_refused_by_name(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        joined([stored("a", "paths", {}), stored("b", "paths", {}, **changes)])
    with pytest.raises(DataError, match="benchmark is paths in the first, decoding in the second"):
        joined([stored("a", "paths", {}), stored("b", "decoding", {})])
