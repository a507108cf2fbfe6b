"""The errors that otspec raises on purpose; each message names the value, the rule and the way out."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from otspec.results import Result


class ProblemError(ValueError):
    """The input describes no multi-draft problem: a law, a tuple of drafts or a setting is out of its range."""


class DataError(ValueError):
    """A file of positions, or a folder of results, is not what it has to be."""


class UnknownSolver(LookupError):
    """No solver of that name, or no such setting of it."""


class MissingExtra(ImportError):
    """An optional package is needed here and is not installed."""


class SolveError(RuntimeError):
    """A strict `otspec.solve` ended without a certified optimum.

    Attributes
    ----------
    result : Result
        What the solver did return, with its status, message and figures.
    """

    def __init__(self, result: Result) -> None:
        super().__init__(f"{result.stats.solver}: {result.status.name}, {result.message}")
        self.result = result
