"""The `interval` rule as a decoder needs it: one position verified in one compiled call, and batches on all threads.

Both take laws as a model leaves them, float32 or float64, with a total that a float32 softmax may have left a little
off 1.  Each law is divided by its total in float64, and all that follows is computed in float64: "lossless" means that
the output has the law p / sum(p) of the p that was given, for drafts that have the law q / sum(q).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numba
import numpy as np
from numba import get_thread_id  # type: ignore[attr-defined]  # numba's __init__ does not list it

from otspec.errors import ProblemError
from otspec.interval.lottery import (
    CHUNK,
    Places,
    Sizes,
    Workspace,
    hold_lotteries,
    memory,
    room_for,
    solve_and_certify,
    trim,
    trim_compiled,
    workspace,
)
from otspec.interval.pick_place import PlaceRule, pick_draft
from otspec.jit import jit, parallel_jit
from otspec.laws import FloatArray, IntArray, as_count, as_drafts, as_float64, as_law
from otspec.plans import Pick
from otspec.problem import Problem
from otspec.schemes import IID
from otspec.tolerances import MASS_TOL


class Verdict(NamedTuple):
    """What comes out of the verification of one position."""

    token: int
    """The output."""
    draft: int
    """Index of the accepted draft, or -1: the output is then a draw from the residual law."""


def verify(p: Any, q: Any, drafts: Any, rng: np.random.Generator) -> Verdict:
    """Verify i.i.d. drafts of one position: the output has law p, and is a draft as often as any rule can make it.

    The same rule as the plan of ``otspec.solve(problem, "interval")``, without its figures: after the first
    call of a thread no array of the size of the vocabulary is allocated, and only tokens with q > 0 are sorted, so
    drafts truncated to top-k cost O(V + k).

    Parameters
    ----------
    p, q : array_like or torch tensor, shape (V,)
        Target law, and the law that the drafts were really drawn from (after temperature and truncation).
    drafts : array_like of int, shape (n,)
        n independent draws from q.
    rng : numpy.random.Generator

    Returns
    -------
    Verdict
        The output token, and which draft it is.

    Raises
    ------
    ProblemError
        If p or q is no law, their shapes differ, or a draft is no token or has q = 0.
    """
    p, q = _as_floats("p", p), _as_floats("q", q)
    if p.ndim != 1 or p.shape != q.shape:
        raise ProblemError(f"p has shape {p.shape} and q {q.shape}; both need one shape (V,)")
    drafts = as_drafts(drafts, np.size(drafts), p.size)
    if drafts.size == 0:
        raise ProblemError("there are no drafts; draft at least 1 token per position")
    mine = memory.of(p.size)
    token, draft = _verify(p, q, drafts, rng.random((drafts.size + 1, 3)), mine.work, mine.room)
    if token < 0:
        as_law("p", p)
        as_law("q", q)
        raise ProblemError(f"the drafts {drafts} hold a token whose draft probability is 0")
    return Verdict(token, draft)


@dataclass(frozen=True, eq=False)
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
    """Shape (B, 3): `otspec.interval.lottery.Sizes` of each position."""

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
        If a row is no law, the shapes differ, or n is no positive integer.
    """
    n = as_count("n", n)
    P, Q = _as_floats("P", P), _as_floats("Q", Q)
    if P.ndim != 2 or P.shape != Q.shape:
        raise ProblemError(f"P has shape {P.shape} and Q {Q.shape}; both need one shape (B, V)")
    count, vocab = P.shape
    room = Places(*(np.empty((count, rows.size), dtype=rows.dtype) for rows in room_for(vocab)))
    work = Workspace(*(np.empty((numba.get_num_threads(), *rows.shape), dtype=rows.dtype) for rows in workspace(vocab)))
    sizes = np.empty((count, 3), dtype=np.int64)
    figures = np.empty((2, count))
    _solve_rows(P, Q, n, work, room, sizes, figures)
    if sizes.size and sizes.min() < 0:
        wrong = int(sizes.min(axis=1).argmin())
        as_law(f"P[{wrong}]", P[wrong])
        as_law(f"Q[{wrong}]", Q[wrong])
    return Batch(P, Q, n, figures[0], figures[1], room, sizes)


def _as_floats(name: str, values: Any) -> Any:
    """A contiguous array of float32, if that is what came, or of float64."""
    if isinstance(values, np.ndarray) and values.dtype == np.float32:
        return np.ascontiguousarray(values)
    return np.ascontiguousarray(as_float64(name, values))


@jit
def _scale(law: Any) -> float:
    """1 / total of a law, in float64; 0 if it is none."""
    total = 0.0
    least = 0.0
    for first in range(0, law.size, CHUNK):
        here = 0.0
        for i in range(first, min(first + CHUNK, law.size)):
            here += np.float64(law[i])
            least = min(least, law[i])
        total += here
    return 1.0 / total if least >= 0.0 and abs(total - 1.0) <= MASS_TOL else 0.0


@jit
def _verify(p: Any, q: Any, drafts: IntArray, uniforms: FloatArray, work: Workspace, room: Places) -> tuple[int, int]:
    """Output token and accepted draft, or (-1, -1) where the input is no problem."""
    p_scale = _scale(p)
    q_scale = _scale(q)
    if p_scale == 0.0 or q_scale == 0.0:
        return -1, -1
    places = trim_compiled(room, hold_lotteries(p, q, p_scale, q_scale, drafts.size, work, room))
    ranks = np.empty(drafts.size, dtype=np.int64)
    for m in range(drafts.size):
        if q[drafts[m]] == 0:
            return -1, -1
        ranks[m] = _rank(drafts[m], p[drafts[m]] * p_scale, q[drafts[m]] * q_scale, work.target, places)
    picked = pick_draft(places, ranks, uniforms)
    rank = ranks[picked]
    k = places.order.size
    missing = 0.0
    if uniforms[-1, 0] * places.proposal[rank] >= work.target[rank]:
        for j in range(k):
            missing += max(work.target[j] - places.proposal[j], 0.0)
        for i in range(p.size):
            if q[i] == 0:
                missing += p[i] * p_scale
    if missing == 0.0:
        return drafts[picked], picked
    position = uniforms[-1, 1] * missing
    token = -1
    for j in range(k):
        rest = work.target[j] - places.proposal[j]
        if rest > 0.0:
            token = places.order[j]
            position -= rest
            if position < 0.0:
                return token, -1
    for i in range(p.size):
        if q[i] == 0 and p[i] > 0:
            token = i
            position -= p[i] * p_scale
            if position < 0.0:
                return token, -1
    return token, -1


@jit
def _rank(token: int, p: float, q: float, target: FloatArray, places: Places) -> int:
    """The rank of a token, by bisection on p/q and a walk along its ties."""
    ratio = p / q
    low = 0
    high = places.order.size
    while low < high:
        middle = (low + high) // 2
        if target[middle] / places.size[middle] < ratio:
            low = middle + 1
        else:
            high = middle
    while places.order[low] != token:
        low += 1
    return low


@parallel_jit
def _solve_rows(P: Any, Q: Any, n: int, work: Workspace, room: Places, sizes: IntArray, figures: FloatArray) -> None:
    for b in numba.prange(P.shape[0]):
        t = get_thread_id()
        p_scale = _scale(P[b])
        q_scale = _scale(Q[b])
        if p_scale == 0.0 or q_scale == 0.0:
            sizes[b] = -1
        else:
            mine = Workspace(work.keys[t], work.target[t], work.density[t], work.rise[t], work.run[t])
            row = Places(
                room.order[b],
                room.size[b],
                room.release[b],
                room.home[b],
                room.proposal[b],
                room.block[b],
                room.oldest[b],
                room.newest[b],
                room.giver[b],
                room.past[b],
                room.head[b],
                room.tail[b],
                room.held[b],
                room.pivot[b],
            )
            filled, acceptance, bound = solve_and_certify(P[b], Q[b], p_scale, q_scale, n, mine, row)
            sizes[b, 0] = filled.tokens
            sizes[b, 1] = filled.blocks
            sizes[b, 2] = filled.lotteries
            figures[0, b] = acceptance
            figures[1, b] = bound
