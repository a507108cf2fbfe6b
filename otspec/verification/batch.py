"""Optimal plans of many positions at once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from numba.core import config as numba_config

from otspec.errors import ProblemError
from otspec.kernels.interval.places import Places, Sizes, empty_places, memory, trim
from otspec.laws import FloatArray, IntArray, Seed, as_count, as_drafts, as_generator, as_law
from otspec.plans import Pick
from otspec.plans.place_rule import PlaceRule
from otspec.problem import Problem
from otspec.schemes import IID
from otspec.verification.rules.interval.compiled import as_floats, solve_rows

THREADS: int = numba_config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]  # from the environment, or all cores
ALONE = 1 << 12
"""Tokens, of all rows together, that are solved before another thread would have begun."""


@dataclass(frozen=True, eq=False, repr=False)
class Batch:
    """The optimal plans of B positions, as arrays; ``batch[b]``, or ``batch.plan(b)``, is one of them.

    Examples
    --------
    >>> import otspec
    >>> batch = otspec.solve_batch([[0.5, 0.5], [0.9, 0.1]], [[0.9, 0.1], [0.9, 0.1]], n=2)
    >>> len(batch)
    2
    >>> print(f"{batch[0].acceptance:.2f}")  # a plan, as otspec.solve gives one
    0.69
    """

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
    """Arrays of shape (B, ...), each row filled up to its `sizes`."""
    sizes: IntArray
    """Shape (B, 3): `otspec.kernels.interval.places.Sizes` of each position."""

    def __repr__(self) -> str:
        figures = f", mean acceptance {self.acceptance.mean():.6g}" if len(self) else ""
        return f"<Batch: {len(self)} positions of {self.P.shape[1]} tokens, n = {self.n}{figures}; see plan(b)>"

    def __len__(self) -> int:
        return self.acceptance.size

    def __getitem__(self, b: int) -> Pick:
        return self.plan(b)

    def __iter__(self) -> Iterator[Pick]:
        return (self.plan(b) for b in range(len(self)))

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
        """The plan of position b, counted from the end if below 0.

        Raises
        ------
        IndexError
            If there is no such position.
        """
        if not -len(self) <= b < len(self):
            raise IndexError(f"position {b} of a batch of {len(self)}")
        problem = Problem(self.P[b], IID(self.Q[b], self.n))
        assert isinstance(problem.scheme, IID)
        return Pick(problem, PlaceRule(problem.scheme, self._places(b)), float(self.bound[b]))

    def sample(self, drafts: Any, rng: Seed) -> IntArray:
        """Draw the output of each position given its drafts: shape (B, n) to (B,).

        Raises
        ------
        ProblemError
            If the drafts are not a tuple of each position's scheme, or have probability 0 under it.
        """
        drafts, rng = as_drafts(drafts, self.n, self.P.shape[1]), as_generator(rng, 1)
        if drafts.shape != (len(self), self.n):
            raise ProblemError(
                f"drafts have shape {drafts.shape}; a batch of {len(self)} positions needs ({len(self)}, {self.n})"
            )
        return np.array([plan.sample(mine, rng) for plan, mine in zip(self, drafts, strict=True)], dtype=np.int64)

    def _places(self, b: int) -> Places:
        return trim(Places(*(rows[b] for rows in self.places)), Sizes(*self.sizes[b].tolist()))


@cache
def _pool() -> ThreadPoolExecutor:
    """Threads beside the calling one."""
    return ThreadPoolExecutor(THREADS)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # threads do not come along


def solve_batch(P: Any, Q: Any, n: int) -> Batch:
    """Solve B positions with n i.i.d. drafts each, on as many threads as numba has (NUMBA_NUM_THREADS).

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

    Examples
    --------
    >>> import numpy as np
    >>> import otspec
    >>> P = np.array([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]])
    >>> Q = np.array([[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]])
    >>> print(otspec.solve_batch(P, Q, n=2).acceptance.round(3))
    [0.86 1.  ]
    """
    n = as_count("n", n)
    P, Q = as_floats("P", P), as_floats("Q", Q)
    if P.ndim != 2 or P.shape != Q.shape:
        raise ProblemError(f"P has shape {P.shape} and Q {Q.shape}; both need one shape (B, V)")
    count, vocab = P.shape
    room = Places(*(np.empty((count, rows.size), dtype=rows.dtype) for rows in empty_places(vocab)))
    sizes, figures = np.empty((count, 3), dtype=np.int64), np.empty((2, count))

    def solve(first: int, last: int) -> None:
        solve_rows(first, last, P, Q, n, memory.of(vocab).work, room, sizes, figures)

    parts = min(THREADS, count * vocab // ALONE + 1, max(count, 1))
    ends = [count * part // parts for part in range(parts + 1)]
    others = [_pool().submit(solve, *rows) for rows in pairwise(ends[1:])]
    solve(0, ends[1])
    for other in others:
        other.result()
    if sizes.size and sizes.min() < 0:
        wrong = int(sizes.min(axis=1).argmin())
        as_law(f"P[{wrong}]", P[wrong])
        as_law(f"Q[{wrong}]", Q[wrong])
    return Batch(P, Q, n, figures[0], figures[1], room, sizes)
