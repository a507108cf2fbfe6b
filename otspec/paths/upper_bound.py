"""An upper bound on what any lossless verifier of K i.i.d. paths can accept, for small models."""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array, vstack

from otspec.errors import ProblemError
from otspec.laws import FloatArray, IntArray, as_count, as_law
from otspec.paths.enumeration import prefixes
from otspec.paths.tree import Model, Prefix, check_model
from otspec.tolerances import TOL

MAX_PREFIXES = 2_000
SLOPES = 40
"""Slopes from which the separation starts in every round."""
ROUNDS = 200


def bound(model: Model, count: int, length: int) -> float:
    """Upper bound on the mean number of accepted tokens of every lossless verifier, however much it looks ahead.

    With A(v) the probability that the accepted prefix is v or goes on from v, a verifier can only be lossless if
    A(vx) <= A(v) p(x | v), and it can only accept what was drafted: sum of A(v) over prefixes S of which none begins
    another is at most 1 - (1 - q(S))**K.  The bound is the largest sum of A under these constraints (`docs/paths.md`),
    found by cutting planes.  Constraints of the second kind are exponentially many, but a most violated one for a given
    slope of 1 - (1 - q)**K follows from one pass over the tree.  Those not found leave the bound valid, up to the 1e-7
    within which HiGHS keeps constraints.

    Raises
    ------
    ProblemError
        If there are more than `MAX_PREFIXES` prefixes of at most L tokens.
    """
    check_model(model)
    count, length = as_count("count", count), as_count("length", length)
    vocab = np.size(model.target(()))
    size = sum(vocab**i for i in range(length + 1))
    if size > MAX_PREFIXES:
        raise ProblemError(
            f"{vocab} tokens and L = {length} make {size} prefixes, more than {MAX_PREFIXES}; take fewer"
        )
    number: dict[Prefix, int] = {prefix: i for i, prefix in enumerate(prefixes(vocab, length))}
    parent = np.array([-1] + [number[prefix[:-1]] for prefix in number if prefix])
    step, chance = np.ones(size), np.ones(size)
    for prefix, node in number.items():
        if len(prefix) < length:
            children = [number[(*prefix, x)] for x in range(vocab)]
            step[children] = as_law(f"target{prefix}", model.target(prefix))
            chance[children] = chance[node] * as_law(f"draft{prefix}", model.draft(prefix))

    below = np.arange(1, size)
    rows = csr_array(
        (np.concatenate((np.ones(size - 1), -step[1:])), (np.tile(below - 1, 2), np.concatenate((below, parent[1:])))),
        shape=(size - 1, size),
    )
    limits = np.zeros(size - 1)
    slopes = count * (1.0 - np.linspace(0.0, 1.0, SLOPES, endpoint=False)) ** (count - 1)
    simple = [(0.0, _hit(mass, count)) for mass in chance.tolist()]
    simple[0] = (1.0, 1.0)
    for _ in range(ROUNDS):
        found = linprog(  # type: ignore[call-overload]  # its stubs do not know sparse rows
            -np.ones(size), A_ub=rows, b_ub=limits, bounds=simple, method="highs"
        )
        if found.x is None:
            raise ArithmeticError(f"HiGHS found no optimum of the bound's program: {found.message}")
        cuts = _violated(found.x, chance, parent, slopes, count)
        if not cuts:
            break
        indicator = np.zeros((len(cuts), size))
        for row, cut in enumerate(cuts):
            indicator[row, cut] = 1.0
        rows = vstack((rows, csr_array(indicator)), format="csr")
        limits = np.append(limits, [_hit(chance[cut].sum(), count) for cut in cuts])
    return float(-found.fun - 1.0)


def _hit(mass: float, count: int) -> float:
    """Probability that one of the paths goes through a set of prefixes of that probability."""
    return -math.expm1(count * math.log1p(-mass)) if mass < 1.0 else 1.0


def _violated(
    accepted: FloatArray, chance: FloatArray, parent: IntArray, slopes: FloatArray, count: int
) -> list[IntArray]:
    """Sets of prefixes whose constraint is violated, at most one for each slope, without repeats."""
    cuts: dict[bytes, IntArray] = {}
    for slope in slopes:
        for _ in range(10):  # follow the slope to where it touches
            gain = accepted - slope * chance
            best = np.zeros(gain.size)
            own = np.zeros(gain.size, dtype=bool)
            for node in range(gain.size - 1, -1, -1):
                own[node] = gain[node] > best[node]
                best[node] = max(gain[node], best[node])
                if node:
                    best[parent[node]] += best[node]
            chosen = _topmost(own, parent)
            touching = count * max(1.0 - chance[chosen].sum(), 0.0) ** (count - 1)
            if abs(touching - slope) <= TOL:
                break
            slope = touching
        if accepted[chosen].sum() > _hit(chance[chosen].sum(), count) + TOL:
            cuts[chosen.tobytes()] = chosen
    return list(cuts.values())


def _topmost(own: np.typing.NDArray[np.bool_], parent: IntArray) -> IntArray:
    """The marked nodes that have no marked one above them."""
    covered = own.copy()
    for node in range(1, own.size):
        covered[node] |= covered[parent[node]]
    above = np.append(False, covered[parent[1:]])
    return np.flatnonzero(own & ~above)
