"""The figures of a plan of `interval`, measured in the call that solves: what `otspec.plans.Pick` measures, to the bit.

Sums are taken in the order in which numpy takes them, so that a plan that is read from a file, and measures itself
again, has the same figures.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from otspec.jit import jit
from otspec.kernels.interval.exchange import CHUNK, solve_and_certify
from otspec.kernels.interval.picking import integrate, pick_weights, point_laws
from otspec.kernels.interval.places import Places, Workspace, empty_compiled, trim_compiled
from otspec.laws import FloatArray
from otspec.tolerances import TIE_TOL


class Measured(NamedTuple):
    """What `solve_and_measure` returns."""

    places: Places
    """Of all tokens that can be drafted, trimmed to what is filled."""
    proposal: FloatArray
    """Shape (V,): g, the law of the pick, by token."""
    bound: float
    """Upper bound on the acceptance of any rule."""
    acceptance: float
    """sum_x min(p(x), g(x))."""
    off: float
    """L1 distance to p of the law of the output that follows from g."""
    chances: bool
    """Whether the weights of the rule are probabilities, for all tuples of drafts that were drawn."""
    mass: FloatArray
    """Shape (m,): the probability of every tuple that can occur, if there are few; else none."""
    laws: FloatArray
    """Shape (m, V): the law of the output given that tuple."""


@jit
def solve_and_measure(
    p: Any,
    q: Any,
    n: int,
    work: Workspace,
    tried: int,
    uniforms: FloatArray,
    nodes: FloatArray,
    node_weights: FloatArray,
) -> Measured:
    """Solve, certify, and measure the plan.

    Parameters
    ----------
    p, q : ndarray, shape (V,)
        Target and draft law.
    n : int
        Number of drafts.
    work : Workspace
        As in `solve_places`.
    tried : int
        The tuples of drafts that can occur are all tried if there are no more.
    uniforms : ndarray, shape (d, n)
        Numbers in [0, 1), by which tuples are drawn if there are.
    nodes, node_weights : ndarray, shape ((n + 1) // 2,)
        As in `pick_weights`.
    """
    room = empty_compiled(p.size)
    sizes, _, bound = solve_and_certify(p, q, 1.0, 1.0, n, work, room)
    places = trim_compiled(room, sizes)
    proposal = np.zeros(p.size)
    for j in range(sizes.tokens):
        proposal[places.order[j]] = places.proposal[j]
    terms = work.density[: p.size]
    for i in range(p.size):
        terms[i] = min(p[i], proposal[i])
    acceptance = numpy_sum(terms)
    for i in range(p.size):
        terms[i] = max(p[i] - proposal[i], 0.0)
    total = numpy_sum(terms)
    tuples = min(sizes.tokens, tried + 1)
    if tuples > 1:
        for _ in range(min(n, tried) - 1):
            tuples = min(tuples * sizes.tokens, tried + 1)
    if tuples <= tried:
        mass, laws = every_tuple(p, q, n, tuples, places, proposal, terms, total, nodes, node_weights)
        return Measured(places, proposal, bound, acceptance, 0.0, True, mass, laws)
    for i in range(p.size):
        residual = terms[i] / total if total > 0.0 else p[i]
        terms[i] = abs(min(p[i], proposal[i]) + (1.0 - acceptance) * residual - p[i])
    off = numpy_sum(terms)
    chances = weights_are_chances(places, work.rise, uniforms, nodes, node_weights)
    return Measured(places, proposal, bound, acceptance, off, chances, np.empty(0), np.empty((0, 0)))


@jit
def numpy_sum(values: FloatArray) -> float:
    """The sum as numpy adds up: halves that are multiples of 8 until no more than 128 are left, then eight at a time.

    Parameters
    ----------
    values : ndarray, shape (m,)
    """
    first, count = 0, values.size
    if count <= 128:
        return _sum_of_few(values)
    depth = 0  # of the halves on the right that are still to do, or, once `left` has its neighbour's sum, being done
    starts, counts, begun = np.empty((3, 64), dtype=np.int64)
    left = np.empty(64)
    while True:
        while count > 128:
            half = count // 2
            half -= half % 8
            starts[depth], counts[depth], begun[depth] = first + half, count - half, 0
            depth += 1
            count = half
        total = _sum_of_few(values[first : first + count])
        while depth and begun[depth - 1]:
            depth -= 1
            total = left[depth] + total
        if not depth:
            return total
        first, count, begun[depth - 1], left[depth - 1] = starts[depth - 1], counts[depth - 1], 1, total


@jit
def _sum_of_few(values: FloatArray) -> float:
    """The sum of up to 128 values, shape (m,)."""
    whole = values.size - values.size % 8
    total = 0.0
    if whole:
        a, b, c, d, e, f, g, h = values[0], values[1], values[2], values[3], values[4], values[5], values[6], values[7]
        for i in range(8, whole, 8):
            a += values[i]
            b += values[i + 1]
            c += values[i + 2]
            d += values[i + 3]
            e += values[i + 4]
            f += values[i + 5]
            g += values[i + 6]
            h += values[i + 7]
        total = ((a + b) + (c + d)) + ((e + f) + (g + h))
    for i in range(whole, values.size):
        total += values[i]
    return total


@jit
def every_tuple(
    p: Any,
    q: Any,
    n: int,
    tuples: int,
    places: Places,
    proposal: FloatArray,
    lacking: FloatArray,
    total: float,
    nodes: FloatArray,
    node_weights: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Probabilities, shape (m,), of all tuples of drafts that can occur, and laws, shape (m, V), of the output.

    Parameters
    ----------
    p, q, n, proposal, nodes, node_weights
        As in `solve_and_measure`.
    tuples : int
        The n-th power of the number of tokens that can be drafted.
    places : Places
        Of k tokens, trimmed to what is filled.
    lacking : ndarray, shape (V,)
        max(p - g, 0).
    total : float
        Its sum.
    """
    drafted = np.flatnonzero(q)
    k = drafted.size
    rank, lowest = np.empty(p.size, dtype=np.int64), np.empty(k, dtype=np.int64)
    for j in range(k):
        rank[places.order[j]] = j
    for b in range(places.block.size - 1):
        lowest[places.block[b] : places.block[b + 1]] = places.block[b]
    residual = np.empty(p.size)
    for i in range(p.size):
        residual[i] = lacking[i] / total if total > 0.0 else p[i]
    reached, cut = point_laws(places)
    mass, laws = np.empty(tuples), np.empty((tuples, p.size))
    drafts, ranks, active = np.empty((3, n), dtype=np.int64)
    accepted, below, above, value = np.empty((4, n))
    m = 0
    for number in range(tuples):
        rest, top = number, 0
        for at in range(n - 1, -1, -1):
            drafts[at] = drafted[rest % k]
            ranks[at] = rank[drafts[at]]
            top = max(top, ranks[at])
            rest //= k
        probability = q[drafts[0]]
        for at in range(1, n):
            probability *= q[drafts[at]]
        if probability == 0.0:
            continue
        # The weights of `pick_weights`, to the bit, from what is the same for all tuples.
        count, differing = 0, False
        for at in range(n):
            accepted[at] = 0.0
            if ranks[at] >= lowest[top]:
                active[count] = at
                differing |= ranks[at] != ranks[active[0]]
                count += 1
        if not differing:
            accepted[active[:count]] = 1.0 / count
        below[:count] = 0.0
        for c in range(lowest[top], k + 1 if differing else 0):
            here = False
            for at in active[:count]:
                here |= cut[ranks[at], c]
            if here:
                for a in range(count):
                    above[a] = reached[ranks[active[a]], c]
                integrate(nodes, node_weights, below[:count], above[:count], value[:count], active[:count], accepted)
        for at in range(n):
            i = drafts[at]
            if proposal[i] > p[i]:
                accepted[at] *= p[i] / proposal[i]
        rejected = max(1.0 - numpy_sum(accepted), 0.0)
        law = laws[m]
        for i in range(p.size):
            law[i] = residual[i] * rejected
        for at in range(n):
            law[drafts[at]] += accepted[at]
        mass[m] = probability
        m += 1
    return mass[:m], laws[:m]


@jit
def weights_are_chances(
    places: Places, sums: FloatArray, uniforms: FloatArray, nodes: FloatArray, node_weights: FloatArray
) -> bool:
    """Draw tuples of drafts, and check whether the weights of each are probabilities that sum to 1.

    Parameters
    ----------
    places, uniforms, nodes, node_weights
        As in `every_tuple` and `solve_and_measure`; numbers in [0, 1) in place of random ones choose the tuples.
    sums : ndarray, shape (k / CHUNK + 1,) or longer
        Working memory.
    """
    k = places.size.size
    chunks = (k + CHUNK - 1) // CHUNK
    sums[0] = 0.0
    for c in range(chunks):
        sums[c + 1] = sums[c] + places.size[c * CHUNK : (c + 1) * CHUNK].sum()
    ranks = np.empty(uniforms.shape[1], dtype=np.int64)
    for row in uniforms:
        for at in range(row.size):
            position = row[at] * sums[chunks]
            chunk = min(np.searchsorted(sums[: chunks + 1], position, side="right") - 1, chunks - 1)
            rank, below = chunk * CHUNK, sums[chunk] + places.size[chunk * CHUNK]
            while below <= position and rank + 1 < min((chunk + 1) * CHUNK, k):
                rank += 1
                below += places.size[rank]
            ranks[at] = rank
        weights = pick_weights(places, ranks, nodes, node_weights)
        total = 0.0
        for weight in weights:
            if not weight >= 0.0:  # nan is not either
                return False
            total += weight
        if not abs(total - 1.0) <= weights.size * TIE_TOL:
            return False
    return True
