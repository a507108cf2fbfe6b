"""`otspec solvers`: what there is to choose from."""

from __future__ import annotations

from rich.table import Table as RichTable

from otspec.cli.console import console
from otspec.extras import WAYS_OUT
from otspec.registry import available


def solvers() -> None:
    """List the solvers with what they support, their settings, and what each still needs to be installed."""
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
