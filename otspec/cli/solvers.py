"""`otspec solvers`: what there is to choose from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.table import Table as RichTable

from otspec.cli.groups import with_option_groups
from otspec.extras import WAYS_OUT
from otspec.reporting.console import console
from otspec.reporting.tables import TextTable

if TYPE_CHECKING:
    from otspec.catalogue import SolverInfo
    from otspec.problem import Problem


@dataclass(frozen=True, kw_only=True)
class SolversOptions:
    """What `otspec solvers` takes."""

    schemes: bool = False
    """Show which solver takes which draft scheme instead."""


@with_option_groups
def solvers(request: SolversOptions) -> None:
    """List the solvers with what they support, their settings, and what each still needs to be installed."""
    if request.schemes:
        console.print(schemes_table().on_screen(console.width))
        return
    from otspec.catalogue import available

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


def examples() -> dict[str, Problem]:
    """A problem for every draft scheme, by the scheme's name in `otspec`."""
    import numpy as np

    from otspec import schemes
    from otspec.problem import Problem

    q = np.array([0.4, 0.3, 0.2, 0.1])
    drafts = (
        schemes.IID(q, 2),
        schemes.Independent(np.stack((q, q[::-1]))),
        schemes.Greedy(q, 2),
        schemes.TopK(q, 2),
        schemes.WithoutReplacement(q, 2),
        schemes.HubPairs(q),
        schemes.Table(np.array([[0, 1], [2, 2]]), np.array([0.5, 0.5]), 4),
    )
    return {type(scheme).__name__: Problem(q[::-1], scheme) for scheme in drafts}


def schemes_table() -> TextTable:
    """Which solver takes which draft scheme, by the solvers' own checks."""
    from otspec.catalogue import available

    problems = examples()
    rows = [(info.name, *(_answer(info, problem) for problem in problems.values())) for info in available()]
    note = (
        "exact: every plan is optimal, at any size; to a size: exact as well, but lists the draft sets and refuses "
        "more cells than its max_cells; certified: iterates until its gap is proved to be within tol, or reports "
        "its gap; approximate: no optimum is promised; *: what otspec.solve runs by default; where "
        "distinct_drafters stops short, max_flow up to 100 000 cells and then submodular step in, and submodular where "
        "max_flow meets its limit. With n = 1, closed_form takes every scheme."
    )
    header = ("solver", *problems)
    return TextTable("Which solver for which draft law?", header, rows, note, labels=len(header))


def _answer(info: SolverInfo, problem: Problem) -> str:
    from otspec.catalogue import get
    from otspec.solving import default_solver

    if get(info.name).supports(problem) is not None:
        return "-"
    if "max_steps" in info.settings or (info.exact and "max_iterations" in info.settings):
        kind = "certified"
    elif info.exact:
        kind = "to a size" if "max_cells" in info.settings else "exact"
    else:
        kind = "approximate"
    return f"{kind} *" if info.name == default_solver(problem) else kind
