"""Cells of the benchmark: one solver at one (k, n)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from otspec.catalogue import available, get
from otspec.errors import MissingExtra
from otspec.extras import WAYS_OUT, missing
from otspec.problem import Problem
from otspec.schemes import IID

PROBE = Problem(np.array([0.5, 0.3, 0.2]), IID(np.array([0.2, 0.3, 0.5]), 2))
"""What a solver must take to be part of the benchmark, whose drafts are i.i.d."""


@dataclass(frozen=True)
class Cell:
    """One solver at one truncation and number of drafts."""

    k: int
    """Draft tokens kept; 0 stands for the whole vocabulary."""
    n: int
    """Drafts per position."""
    solver: str
    """Spelling of the solver, as `otspec.solve` takes it."""

    @property
    def setting(self) -> str:
        """(k, n) as the papers print it."""
        return f"({self.k or 'V'}, {self.n})"

    @property
    def size(self) -> tuple[float, int]:
        """Sorts cells from small to large."""
        return self.k or float("inf"), self.n


def grid(ks: Sequence[int], ns: Sequence[int], solvers: Sequence[str]) -> list[Cell]:
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
    return sorted(itertools.starmap(Cell, itertools.product(ks, ns, solvers)), key=lambda cell: cell.size)


def every_solver() -> tuple[list[str], list[str]]:
    """Every solver of i.i.d. drafts with its variants: those whose packages are installed, and those left out."""
    spellings = [spelling for info in available() for spelling in (info.name, *info.variants)]
    spellings = [spelling for spelling in spellings if get(spelling).supports(PROBE) is None]
    left_out = [spelling for spelling in spellings if missing(get(spelling).packages)]
    return [spelling for spelling in spellings if spelling not in left_out], left_out
