from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import pytest

from otspec import MissingExtra, UnknownSolver
from otspec.bench import Cell, grid
from otspec.bench.records import Record
from otspec.bench.solvers.summary import Row, summarise
from otspec.bench.solvers.tables import over_data_table, overview_table, published_table, results_table
from otspec.bench.spellings import every_solver, spelt_out
from tests.bench.records import solved, unsolved


def record(position: int, status: str = "OPTIMAL", wall_s: float = 0.002, **figures: object) -> Record:
    """Of a cell that `summary` puts in."""
    figures = {"optimum": 0.5, **figures}
    if status == "OPTIMAL":
        return solved(LP, position, wall_s, **{"acceptance": 0.5, "gap": 1e-16, "deviation": 2e-16, **figures})
    return unsolved(LP, position, status, wall_s, **figures)


def summary(cell: Cell, *records: Record, beside: Sequence[Record] = (), wanted: int = 0) -> Row:
    """Of a cell, where other solvers measured too."""
    mine = [record | asdict(cell) for record in records]
    grid = {name: [value] for name, value in asdict(cell).items()}
    rows = summarise([*mine, *beside], [{"positions": wanted, "cells": grid}])
    return next(row for row in rows if row["solver"] == cell.solver)


LP = Cell(10, 2, "lp")
SOLVED = summary(Cell(10, 2, "lp"), record(0, wall_s=0.001), record(1, wall_s=0.003))
CUT = summary(Cell(10, 3, "lp"), record(0), record(1, "BUDGET", wall_s=20.0, optimum=None))
REFUSED = summary(Cell(100, 2, "lp"), record(0, "LIMIT", optimum=None))


def test_the_table_shows_times_lower_bounds_and_refusals() -> None:
    rows = results_table([SOLVED, CUT, REFUSED], "llama3").rows
    assert rows[0] == ("(10, 2)", "lp", "2", "2 [1.5, 2.5]", "-", "2/2", "0.5000", "0.5000", "1e-16", "2e-16")
    assert rows[1][2:6] == (">= 10,001", "10,001 [5,002, 15,000]", "-", "1/2")
    assert rows[2][2:7] == ("refused", "-", "2", "0/1", "-")


def test_the_overview_has_a_row_per_solver_and_the_optimum() -> None:
    more = [record(at, optimum=best) | asdict(Cell(10, 2, "lp")) for at, best in enumerate((0.5, 0.7))]
    other = summary(Cell(10, 2, "max_flow"), record(0, wall_s=0.0001, optimum=None), beside=more)
    table = overview_table([SOLVED, other, CUT, REFUSED], "llama3")
    assert table.header == ("solver", "(10, 2)", "(10, 3)", "(100, 2)")
    lp, flow = ("lp", "2", ">= 10,001 (50%)", "refused"), ("max_flow", "0.1", "-", "-")
    assert table.rows == [lp, flow, ("mean alpha*", "0.6000", "0.5000", "-")]
    assert all(words in table.markdown() for words in ("| --- | ---: |", "| mean alpha* |"))


def test_data_sets_count_once_each_in_the_mean_over_them() -> None:
    few = summary(Cell(10, 2, "lp", "gsm8k"), record(0, wall_s=0.001, acceptance=0.25))
    many = summary(Cell(10, 2, "lp", "xsum"), *(record(at, wall_s=0.003) for at in range(9)))
    alone = summary(Cell(10, 3, "lp", "xsum"), record(0))
    cut = summary(Cell(10, 3, "max_flow", "gsm8k"), record(0), record(1, "BUDGET", wall_s=0.004, acceptance=None))
    refused = summary(Cell(10, 3, "max_flow", "xsum"), record(0, "LIMIT"))
    table: Any = over_data_table([few, many, alone, cut, refused], ["gsm8k", "xsum"])
    assert table.rows == [
        ("(10, 2)", "lp (suboptimal)", "2", "10/10", "0.3750", "0.5000"),
        ("(10, 3)", "max_flow", "refused", "1/3", "-", "-"),
    ]
    assert over_data_table([few], ["gsm8k"]) is over_data_table([few], ["gsm8k", "xsum"]) is None


def test_the_papers_rows_stand_beside_ours() -> None:
    table: Any = published_table([SOLVED, CUT, REFUSED], "llama3")
    assert ("(10, 3)", "General LP", "30.14", "lp", ">= 10,001 (50%)") in table.rows
    assert ("(100, 2)", "General LP", "4,000+", "lp", "refused") in table.rows
    assert ("(10, 2)", "G.R. 1e-3", "5.27 (98%)", "global_resolution", "-") in table.rows
    assert published_table([SOLVED], "mine.npz") is None
    assert published_table([summary(Cell(7, 2, "lp"), record(0))], "llama3") is None


def test_the_grid_runs_from_small_to_the_whole_vocabulary_and_checks_its_solvers_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cells = grid([100, 0, 10], [3, 2], ["max_flow"])
    assert [cell.setting for cell in cells] == ["(10, 2)", "(10, 3)", "(100, 2)", "(100, 3)", "(V, 2)", "(V, 3)"]
    with pytest.raises(UnknownSolver, match="no solver 'lp2'"):
        grid([10], [2], ["lp2"])
    monkeypatch.setattr("otspec.extras.installed", lambda package: False)
    with pytest.raises(MissingExtra, match=r'lp needs highspy: pip install "otspec-toolkit\[solvers\]"'):
        grid([10], [2], ["lp"])
    monkeypatch.setattr("otspec.extras.installed", lambda package: package == "igraph")
    (*ready, own), left_out = spelt_out(["all", "mine:Solver"], every_solver)
    assert own == "mine:Solver"
    assert {"max_flow", "max_flow:engine=igraph", "slackness"} <= set(ready)
    assert {"lp", "lp:form=full", "canonical", "max_flow:engine=networkx"} <= set(left_out)


def test_acceptance_stands_beside_the_optimum_of_the_same_positions() -> None:
    """A rule that gives up on hard positions must not look better than the optimum of all."""
    known = [record(at, optimum=best) | asdict(Cell(10, 2, "lp")) for at, best in enumerate((0.9, 0.3, 0.8))]
    mine = [record(0, acceptance=0.9), record(1, "LIMIT", wall_s=0.5), record(2, acceptance=0.7)]
    found = summary(Cell(10, 2, "kseq"), *(one | {"optimum": None} for one in mine), beside=known)
    figures = {"acceptance": 0.8, "optimum": 0.85, "acceptance_error": 0.1, "shortfall_error": 0.05}
    figures |= {"mean": 2.0, "given_up": 500.0, "best": 2 / 3}
    assert {name: found[name] for name in figures} == pytest.approx(figures)
    assert found["kind"] == "suboptimal"
    assert results_table([found], "d").rows[0][1:7] == ("kseq (suboptimal)", "2", "2 [2, 2]", "500", "2/3", "0.8000")


def test_a_lossy_rule_is_marked_everywhere_and_an_interrupted_cell_says_how_many_were_wanted() -> None:
    off = summary(Cell(10, 2, "typical"), record(0) | {"status": "LOSSY", "solved": True, "acceptance": 0.6})
    fine = summary(Cell(10, 3, "typical"), *(record(at) for at in range(3)), wanted=50)
    rows = results_table([fine, off], "d").rows
    assert [(row[1], row[5]) for row in rows] == [("typical", "3/3 of 50"), ("typical (lossy)", "1/1")]
    assert overview_table([fine, off], "d").rows[0][0] == "typical (lossy)"
