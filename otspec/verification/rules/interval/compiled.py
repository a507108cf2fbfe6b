"""The `interval` rule for a decoder, compiled: one position in one call, and rows of a batch in another."""

from __future__ import annotations

from typing import Any

import numpy as np

from otspec.jit import jit, jit_unlocked
from otspec.kernels.interval.exchange import CHUNK, solve_and_certify, solve_places
from otspec.kernels.interval.picking import pick_draft
from otspec.kernels.interval.places import Places, Workspace, trim_compiled
from otspec.laws import FloatArray, IntArray, as_float64
from otspec.tolerances import MASS_TOL


def as_floats(name: str, values: Any) -> Any:
    """A law as a model leaves it, for compiled code: contiguous, of float32 if that is what came, or of float64.

    It cannot be written to, as the laws of a problem cannot: numba compiles a second time for arrays that can.
    """
    is_float32 = isinstance(values, np.ndarray) and values.dtype == np.float32
    floats = np.ascontiguousarray(values if is_float32 else as_float64(name, values)).view()
    floats.flags.writeable = False
    return floats


@jit
def _scale(law: Any) -> float:
    """1 / total of a law of shape (V,), float32 or float64, in float64; 0 if it is not one."""
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
def verify_one(
    p: Any, q: Any, drafts: IntArray, uniforms: FloatArray, work: Workspace, room: Places
) -> tuple[int, int]:
    """Output token and accepted draft, or (-1, -1) where the input is not a problem.

    Parameters
    ----------
    p, q : ndarray, shape (V,), float32 or float64
        Target and draft law.
    drafts : ndarray of int, shape (n,)
        Tokens of the vocabulary; of these it is checked whether q > 0, and nothing else.
    uniforms : ndarray, shape (n + 1, 3)
        Numbers in [0, 1): a row for each draft, as in `pick_draft`; of the last row, whether the picked draft is
        accepted, and what is drawn if it is not.
    work : Workspace
        For V tokens or more; overwritten.
    room : Places
        Of `empty_places`, for V tokens or more; overwritten.
    """
    p_scale = _scale(p)
    q_scale = _scale(q)
    if p_scale == 0.0 or q_scale == 0.0:
        return -1, -1
    places = trim_compiled(room, solve_places(p, q, p_scale, q_scale, drafts.size, work, room))
    ranks = np.empty(drafts.size, dtype=np.int64)
    for m in range(drafts.size):
        if q[drafts[m]] == 0:
            return -1, -1
        ranks[m] = _rank(drafts[m], p[drafts[m]] * p_scale, q[drafts[m]] * q_scale, work.target, places)
    picked = pick_draft(places, ranks, uniforms)
    rank = ranks[picked]
    k = places.order.size
    if uniforms[-1, 0] * places.proposal[rank] < work.target[rank]:
        return drafts[picked], picked
    missing = 0.0
    for j in range(k):
        missing += max(work.target[j] - places.proposal[j], 0.0)
    for i in range(p.size):
        if q[i] == 0:
            missing += p[i] * p_scale
    taken = 1.0
    if missing == 0.0:  # rejected, and nothing is left of p, by rounding: a draw from p itself
        missing, taken = 1.0, 0.0
    position = uniforms[-1, 1] * missing
    token = -1
    for j in range(k):
        rest = work.target[j] - taken * places.proposal[j]
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
    """The rank of a token, by bisection on p/q and a walk along its ties.

    Parameters
    ----------
    token : int
    p, q : float
        Its probabilities.
    target : ndarray, shape (V,)
        p by rank, of which the first k are read.
    places : Places
        Of k tokens, trimmed to what is filled.
    """
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


@jit_unlocked
def solve_rows(
    first: int, last: int, P: Any, Q: Any, n: int, work: Workspace, room: Places, sizes: IntArray, figures: FloatArray
) -> None:
    """Solve rows of a batch, each into its row of `room`; the sizes of one that is not a problem are -1.

    Parameters
    ----------
    first, last : int
        The rows from `first` up to `last`.
    P, Q : ndarray, shape (B, V), float32 or float64
        Target and draft laws.
    n : int
        Drafts of each row.
    work : Workspace
        For V tokens or more; overwritten.
    room : Places
        One for each row, of `empty_places`: its arrays have an axis of B in front.  Filled.
    sizes : ndarray of int, shape (B, 3)
        Filled in: what `Sizes` has, of each row.
    figures : ndarray, shape (2, B)
        Filled in: the acceptance of each row, and the bound.
    """
    for b in range(first, last):
        p_scale = _scale(P[b])
        q_scale = _scale(Q[b])
        if p_scale == 0.0 or q_scale == 0.0:
            sizes[b] = -1
            continue
        row = Places(
            room.order[b],
            room.size[b],
            room.share[b],
            room.exchange[b],
            room.proposal[b],
            room.block[b],
            room.first_recipient[b],
            room.last_recipient[b],
            room.first_donor[b],
            room.donors_end[b],
            room.first_contribution[b],
            room.last_contribution[b],
            room.contributed[b],
            room.threshold[b],
        )
        filled, acceptance, bound = solve_and_certify(P[b], Q[b], p_scale, q_scale, n, work, row)
        sizes[b, 0] = filled.tokens
        sizes[b, 1] = filled.blocks
        sizes[b, 2] = filled.exchanges
        figures[0, b] = acceptance
        figures[1, b] = bound
