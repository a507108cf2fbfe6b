"""Cells of the benchmark: one solver at one (k, n)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from otspec.bench.records import Record
from otspec.catalogue import get
from otspec.data import Position
from otspec.errors import MissingExtra, ProblemError
from otspec.extras import WAYS_OUT, missing
from otspec.laws import FloatArray
from otspec.problem import Problem
from otspec.schemes import IID
from otspec.schemes.catalogue import named_schemes


@dataclass(frozen=True)
class Sampling:
    """How drafts come from the logits of a position."""

    scheme: str = "iid"
    """The draft law, by its name in `otspec.schemes.catalogue`."""
    temperature: float = 1.0
    """Of both models."""
    top_p: float | None = None
    """Keep the likeliest draft tokens of this mass."""

    def problem(self, position: Position, k: int, n: int) -> Problem:
        """The problem of a position, for n drafts among the k likeliest tokens; k = 0 keeps them all.

        Raises
        ------
        ProblemError
            If the logits or the settings make none.
        """
        iid = position.problem(n, temperature=self.temperature, top_k=k or None, top_p=self.top_p)
        assert isinstance(iid.scheme, IID)
        return self._with(iid.p, iid.scheme.q, n)

    def probe(self, n: int) -> Problem:
        """A problem of a few tokens: what a solver must take to be measured, and what it compiles itself on.

        Raises
        ------
        ProblemError
            If there is no such draft law, or it has no n drafts of one draft model.
        """
        if self.scheme not in named_schemes():
            raise ProblemError(f"no draft law {self.scheme!r}; known: {', '.join(named_schemes())}")
        if self.scheme == "independent":
            raise ProblemError("independent drafts come from n draft models, and a file of positions has one")
        weights = np.arange(1.0, n + 2)
        law = weights / weights.sum()
        return self._with(np.roll(law, 1), law, n)  # more than one step for `submodular`

    def _with(self, p: FloatArray, q: FloatArray, n: int) -> Problem:
        return Problem(p, named_schemes()[self.scheme](q, n))


@dataclass(frozen=True)
class Cell:
    """One solver at one truncation and number of drafts."""

    k: int
    """Draft tokens kept; 0 stands for the whole vocabulary."""
    n: int
    """Drafts per position."""
    solver: str
    """Spelling of the solver, as `otspec.solve` takes it."""
    data: str = ""
    """Name of the source of positions."""

    @property
    def setting(self) -> str:
        """(k, n) as the papers print it."""
        return f"({self.k or 'V'}, {self.n})"

    @property
    def size(self) -> tuple[float, int]:
        """Sorts cells from small to large."""
        return self.k or float("inf"), self.n


def cell_of(record: Record) -> Cell:
    """The cell that a record is of."""
    return Cell(record["k"], record["n"], record["solver"], record["data"])


def grid(ks: Sequence[int], ns: Sequence[int], solvers: Sequence[str], data: Sequence[str] = ("",)) -> list[Cell]:
    """All cells, small settings first.

    Raises
    ------
    UnknownSolver
        If a solver is not registered.
    MissingExtra
        If one needs a package that is not installed.
    """
    for spelling in solvers:
        for package in missing(get(spelling).packages):
            raise MissingExtra(f"{spelling} needs {package}: {WAYS_OUT[package]}")
    cells = itertools.starmap(Cell, itertools.product(ks, ns, dict.fromkeys(solvers), data))
    return sorted(cells, key=lambda cell: cell.size)
