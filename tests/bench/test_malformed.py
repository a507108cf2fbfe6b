"""Folders that are not as a run leaves them: one sentence says where, and nothing that is right is lost."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from otspec import DataError, ProblemError
from otspec.bench.comparison import compare
from otspec.bench.kinds import KINDS, kind_of
from otspec.bench.records import RecordFolder
from otspec.bench.report import about
from otspec.bench.stored import joined, read_run
from tests.bench.records import asked_of, identity_of, record_of

pytest.importorskip("pyarrow")
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
        kept_about, kept = good(benchmark, 0)
        bad_about, records = good(benchmark, 3)
        if rng.random() < 0.4:
            bad_about = spoil(rng, bad_about)
        else:
            records = spoil(rng, records)
        write_run(here / "good", kept_about, kept)
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


def test_a_record_that_lacks_a_field_is_refused(tmp_path: Path) -> None:
    about, _ = good("solvers", 0)
    bad = [record_of("solvers", position=7), record_of("solvers", position=8)]
    del bad[1]["k"]
    write_run(tmp_path / "bad", about, bad)
    with pytest.raises(DataError, match=r"results.jsonl, line 2 is damaged: k: field required"):
        read_run(tmp_path / "bad")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"runs": [{}]}, r"runs.0: command: field required"),
        ({"processor": {"a": 1}}, r"processor"),
        ({"data": 5}, r"data: input should be a valid dictionary, and is 5"),
    ],
)
def test_a_run_that_lacks_something_is_refused(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    whole, records = good("solvers", 0)
    write_run(tmp_path / "bad", whole | change, records)
    with pytest.raises(DataError, match=message):
        read_run(tmp_path / "bad")


def test_a_figure_that_is_none_is_refused(tmp_path: Path) -> None:
    whole, _ = good("solvers", 0)
    write_run(tmp_path / "bad", whole, [record_of("solvers", wall_s="x")])
    with pytest.raises(DataError, match='line 1 is damaged: wall_s: input should be a valid number, and is "x"'):
        read_run(tmp_path / "bad")
