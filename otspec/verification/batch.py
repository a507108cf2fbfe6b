"""Optimal plans of many positions at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numba
import numpy as np

from otspec.errors import ProblemError
from otspec.kernels.interval.lottery import Places, Sizes, Workspace, room_for, trim, workspace
from otspec.laws import FloatArray, IntArray, as_count, as_law
from otspec.plans import Pick
from otspec.plans.place_rule import PlaceRule
from otspec.problem import Problem
from otspec.schemes import IID
from otspec.verification.compiled import solve_rows
from otspec.verification.floats import as_floats


@dataclass(frozen=True, eq=False, repr=False)
class Batch:
    """The optimal plans of B positions, kept as arrays; ``batch.plan(b)`` is one of them."""

    P: Any
    """Shape (B, V): target laws, as given."""
    Q: Any
    """Shape (B, V): draft laws, as given."""
    n: int
    acceptance: FloatArray
    """Shape (B,): P(the drafts are accepted)."""
    bound: FloatArray
    """Shape (B,): certified upper bound on the acceptance of every rule."""
    places: Places
    """Arrays of shape (B, ...), each row filled as `sizes` says."""
    sizes: IntArray
    """Shape (B, 3): `otspec.kernels.interval.lottery.Sizes` of each position."""

    def __repr__(self) -> str:
        figures = f", mean acceptance {self.acceptance.mean():.6g}" if len(self) else ""
        return f"<Batch: {len(self)} positions of {self.P.shape[1]} tokens, n = {self.n}{figures}; see plan(b)>"

    def __len__(self) -> int:
        return self.acceptance.size

    @property
    def gap(self) -> FloatArray:
        """Shape (B,): bound - acceptance, 0 up to rounding."""
        return self.bound - self.acceptance

    @property
    def proposal(self) -> FloatArray:
        """g, shape (B, V): the law of the picked draft at each position."""
        law = np.zeros(self.P.shape)
        for b in range(len(self)):
            places = self._places(b)
            law[b, places.order] = places.proposal
        return law

    def plan(self, b: int) -> Pick:
        """The plan of position b."""
        problem = Problem(self.P[b], IID(self.Q[b], self.n))
        assert isinstance(problem.scheme, IID)
        return Pick(problem, PlaceRule(problem.scheme, self._places(b)), float(self.bound[b]))

    def _places(self, b: int) -> Places:
        return trim(Places(*(rows[b] for rows in self.places)), Sizes(*self.sizes[b].tolist()))


def solve_batch(P: Any, Q: Any, n: int) -> Batch:
    """Solve B positions with n i.i.d. drafts each, on numba's threads.

    Parameters
    ----------
    P, Q : array_like or torch tensor, shape (B, V)
        Target and draft laws, float32 or float64.
    n : int
        Drafts per position.

    Returns
    -------
    Batch
        It takes up to 60 bytes per position and token of the vocabulary.

    Raises
    ------
    ProblemError
        If a row is not a law, the shapes differ, or n is not a positive integer.
    """
    n = as_count("n", n)
    P, Q = as_floats("P", P), as_floats("Q", Q)
    if P.ndim != 2 or P.shape != Q.shape:
        raise ProblemError(f"P has shape {P.shape} and Q {Q.shape}; both need one shape (B, V)")
    count, vocab = P.shape
    room = Places(*(np.empty((count, rows.size), dtype=rows.dtype) for rows in room_for(vocab)))
    work = Workspace(*(np.empty((numba.get_num_threads(), *rows.shape), dtype=rows.dtype) for rows in workspace(vocab)))
    sizes = np.empty((count, 3), dtype=np.int64)
    figures = np.empty((2, count))
    solve_rows(P, Q, n, work, room, sizes, figures)
    if sizes.size and sizes.min() < 0:
        wrong = int(sizes.min(axis=1).argmin())
        as_law(f"P[{wrong}]", P[wrong])
        as_law(f"Q[{wrong}]", Q[wrong])
    return Batch(P, Q, n, figures[0], figures[1], room, sizes)
