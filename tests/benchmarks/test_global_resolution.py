import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from benchmarks.global_resolution import acceptance, greedy, limits, other_laws, temperature
from benchmarks.global_resolution.limits import Choice, best_within, with_fallback
from otspec.reporting.tables import TextTable
from tests.spellings import installed

FAST = Choice("fast", np.array([1.0, 2.0]), np.array([0.5, 0.7]), np.array([True, True]))
SLOW = Choice("slow", np.array([30.0, 10.0]), np.array([0.8, 0.8]), np.array([True, True]))
PARTIAL = Choice("partial", np.array([4.0, 0.1]), np.array([0.9, 0.9]), np.array([True, False]))

KS = {"llama3": {10, 100, 1000, 10_000, 100_000, 0}, "smollm2": {10, 100, 256}}
"""The numbers of likeliest tokens that each source has."""


@pytest.mark.parametrize(
    ("script", "data", "pictures", "shown"),
    [
        (acceptance.main, "llama3", {"acceptance.png"}, "k = V"),
        (greedy.main, "smollm2", {"greedy.png"}, "k = 256"),
        (temperature.main, "smollm2", {"smollm2_acceptance.png", "smollm2_times.png"}, ""),
    ],
)
def test_scripts_leave_records_report_and_pictures_of_what_their_data_hold(
    script: Callable[[], None],
    data: str,
    pictures: set[str],
    shown: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    pytest.importorskip("vl_convert")
    out = tmp_path / "out"
    monkeypatch.setattr(sys, "argv", ["script", "--data", data, "--positions", "1", "--out", str(out)])
    script()
    assert {path.name for path in out.iterdir()} == {"records.jsonl", "report.md", *pictures}
    records = [json.loads(line) for line in (out / "records.jsonl").read_text().splitlines()]
    assert {record["k"] for record in records} == KS[data]
    assert data == "llama3" or {record["temperature"] for record in records} <= {0.6, 1.0}
    measured = [record for record in records if "bound" in record]
    assert measured
    assert all(abs(record["bound"] - record["acceptance"]) < 1e-9 for record in measured)
    assert shown in (out / "report.md").read_text()


@pytest.mark.skipif(not installed("lp"), reason="not installed: highspy")
def test_the_other_laws_are_compared_with_lp(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(other_laws, "SETTINGS", dict.fromkeys(other_laws.SETTINGS, ((4, 2),)))
    monkeypatch.setattr(other_laws, "SOLVERS", ("lp", "global_resolution:max_iterations=500", ""))
    monkeypatch.setattr(sys, "argv", ["script", "--positions", "2"])
    tables: list[TextTable] = []
    monkeypatch.setattr(other_laws, "show", tables.append)
    other_laws.main()
    rows = {(law, solver.partition(":")[0]): figures for law, _, solver, _, _, *figures in tables[0].rows}
    compared = {"lp", "global_resolution", "interval", "without_replacement", "distinct_drafters"}
    assert {solver for _, solver in rows} == compared
    for (_, solver), (solved, plans, _, _, apart, deviation) in rows.items():
        assert (solved, plans) == ("100%", "2")
        assert max(float(apart), float(deviation)) <= (13e-3 if solver == "global_resolution" else 1e-4)


def test_a_position_without_a_whole_plan_is_left_out() -> None:
    record = {"law": "", "k": 4, "n": 2, "position": 0, "solver": "lp", "solved": True, "wall_s": 1e-3}
    failed = record | {"solver": "global_resolution", "acceptance": None}  # one system solved, the other not
    rows = other_laws.table([record | {"acceptance": 0.5, "deviation": 0.0}, failed]).rows
    assert rows[0][5:9] == ("100%", "1", "0.5000", "0.5000")
    assert rows[1][5:9] == ("100%", "0", "-", "-")


def test_the_limit_is_on_the_mean_time() -> None:
    assert best_within([FAST, SLOW], 10.0) is FAST
    assert best_within([FAST, SLOW], 20.0) is SLOW
    assert best_within([FAST, SLOW], 1.0) is None
    assert best_within([PARTIAL], 100.0) is None  # it gives up on a position


def test_a_fallback_pays_for_the_attempt_and_the_rescue() -> None:
    (completed,) = with_fallback([PARTIAL], [FAST])
    assert completed.ms.tolist() == [4.0, 2.1]
    assert completed.acceptance.tolist() == [0.9, 0.7]
    assert completed.solved.all()
    assert with_fallback([PARTIAL], [PARTIAL]) == []


RECORD = {"solver": "lp", "k": 10, "n": 2, "wall_s": 0.001, "optimum": 0.5, "solved": True, "status": "OPTIMAL"}


def test_the_folder_of_a_bench_run_is_read_into_the_table(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(json.dumps({"data": {"llama3": {"seed": 0}}}))
    records = [RECORD | {"position": index, "solver": solver} for solver in ("lp", "interval") for index in (1, 0, 2)]
    (tmp_path / "results.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    monkeypatch.setattr(sys, "argv", ["limits", "--results", str(tmp_path), "--positions", "2"])
    limits.main()
    written = (tmp_path / "limits.md").read_text()
    assert "| 10 | General LP | 82.53% | 50.00% | (10, 2) | 1 |" in written
    assert "| 100 | interval | - | 50.00% | (10, 2) | 1 |" in written
    assert "| 100 | Max-flow | 89.01% | - | - | - |" in written
