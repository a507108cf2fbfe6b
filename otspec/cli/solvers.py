"""`otspec solvers`: what there is to choose from."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import typer
from rich.table import Table as RichTable

from otspec.catalogue import SolverInfo, available, get
from otspec.extras import WAYS_OUT
from otspec.problem import Problem
from otspec.reporting.console import console
from otspec.reporting.tables import TextTable
from otspec.schemes import (
    IID,
    DraftScheme,
    Greedy,
    HubPairs,
    Independent,
    Systematic,
    Table,
    TopK,
    WithoutReplacement,
)
from otspec.solving import default_solver

Q = np.array([0.4, 0.3, 0.2, 0.1])
EXAMPLES: dict[str, DraftScheme] = {
    "IID": IID(Q, 2),
    "Independent": Independent(np.stack((Q, Q[::-1]))),
    "Greedy": Greedy(Q, 2),
    "TopK": TopK(Q, 2),
    "Systematic": Systematic(Q, 2),
    "WithoutReplacement": WithoutReplacement(Q, 2),
    "HubPairs": HubPairs(Q),
    "Table": Table(np.array([[0, 1], [2, 2]]), np.array([0.5, 0.5]), 4),
}
"""One problem's worth of every draft scheme, by its name in `otspec`."""


def solvers(
    schemes: Annotated[bool, typer.Option("--schemes", help="Which solver takes which draft scheme, instead.")] = False,
) -> None:
    """List the solvers with what they support, their settings, and what each still needs to be installed."""
    if schemes:
        console.print(schemes_table().on_screen(console.width))
        return
    table = RichTable(show_lines=True)
    for name in ("solver", "what it is", "exact", "draft schemes", "settings", "needs"):
        table.add_column(name, overflow="fold")
    for info in available():
        table.add_row(
            info.name,
            info.summary,
            "yes" if info.exact else "no",
            info.schemes,
            "\n".join(f"{key} = {value}" for key, value in info.settings.items()),
            "\n".join(f"{package}: {WAYS_OUT[package]}" for package in info.missing) or "nothing more",
        )
    console.print(table)


def schemes_table() -> TextTable:
    """Which solver takes which draft scheme, asked of the solvers themselves."""
    problems = {name: Problem(Q[::-1], scheme) for name, scheme in EXAMPLES.items()}
    rows = [(info.name, *(_answer(info, problem) for problem in problems.values())) for info in available()]
    note = (
        "exact: every plan is optimal, at any size; to a size: exact as well, but lists the draft sets and refuses "
        "more cells than its max_cells; certified: iterates until its gap is proved to be within tol, or says how far "
        "it came; approximate: no optimum is promised; *: what otspec.solve runs unless told otherwise. With n = 1, "
        "closed_form takes every scheme."
    )
    header = ("solver", *problems)
    return TextTable("Which solver for which draft law?", header, rows, note, labels=len(header))


def _answer(info: SolverInfo, problem: Problem) -> str:
    if get(info.name).supports(problem) is not None:
        return "-"
    if "max_steps" in info.settings or (info.exact and "max_iterations" in info.settings):
        kind = "certified"
    elif info.exact:
        kind = "to a size" if "max_cells" in info.settings else "exact"
    else:
        kind = "approximate"
    return f"{kind} *" if info.name == default_solver(problem) else kind
