"""An upper bound on what any lossless verifier of i.i.d. drafts can accept, for small models."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array, vstack

from otspec.errors import ProblemError
from otspec.laws import FloatArray, IntArray
from otspec.tolerances import TOL
from otspec.verification.reference.enumeration import checked, prefixes
from otspec.verification.trees.shape import Shape
from otspec.verification.trees.tree import Model, Prefix, as_shape, check_model

MAX_PREFIXES = 2_000
SLOPES = 40
"""Slopes from which the separation starts in every round."""
BELOW = 8
"""Where tangents start from at branching nodes below the root, for each of them."""
ROUNDS = 200


def bound(model: Model, count: int, length: int) -> float:
    """Upper bound on the mean number of accepted tokens of every lossless verifier, whatever its look-ahead.

    With A(v) the probability that the accepted prefix is v or goes on from v, a verifier can only be lossless if
    A(vx) <= A(v) p(x | v), and it can only accept what was drafted: sum of A(v) over prefixes S of which none begins
    another is at most 1 - (1 - q(S))**K.  The bound is the largest sum of A under these constraints
    (`docs/paths.md`), found by cutting planes: see `tree_bound`.

    Raises
    ------
    ProblemError
        If there are more than `MAX_PREFIXES` prefixes of at most L tokens.

    Examples
    --------
    >>> from otspec.verification import Nested, bound, path_law, synthetic
    >>> model = synthetic("tiny", vocab=2)
    >>> accepted = path_law(Nested(sigma=0), model, 2, 2).accepted  # two paths of two tokens
    >>> length = sum(chance for prefix, chance in accepted.items() if prefix)
    >>> bool(length <= bound(model, 2, 2) + 1e-9)
    True
    """
    check_model(model)
    return tree_bound(model, Shape.paths(count, length).branching)


def tree_bound(model: Model, branching: Sequence[int]) -> float:
    """`bound` for trees in which every node of level l has `branching[l]` children, all drawn independently.

    The sum of A(v) over prefixes S of which none begins another is at most P(the tree meets S), which is h(root) with
    h = 1 on S and h(v) = 1 - (1 - sum of q(x|v) h(vx))**b above it, b children being drawn after v.  Constraints of
    this kind are exponentially many.  With tangents in place of the powers a most violated one follows from one pass
    over the tree, and tangents are moved to where they touch.  Those not found leave the bound valid, up to the 1e-7
    within which HiGHS meets constraints.  Where several levels branch some may be missed: on models of 2 and 3 tokens
    the bound is then up to 1e-5 above that with all constraints.

    Raises
    ------
    ProblemError
        If there are more than `MAX_PREFIXES` prefixes, or `branching` is no sequence of integers >= 1.

    Examples
    --------
    >>> from otspec.verification import Nested, TokenWise, synthetic, tree_bound, tree_law
    >>> model = synthetic("tiny", vocab=2)
    >>> for rule in TokenWise(), Nested():
    ...     print(f"{tree_law(rule, model, (2, 1)).mean_accepted:.3f} of at most {tree_bound(model, (2, 1)):.3f}")
    1.720 of at most 1.726
    1.726 of at most 1.726
    """
    check_model(model)
    shape = as_shape(branching)
    length = shape.depth
    model = checked(model)
    vocab = model.target(()).size
    size = sum(vocab**i for i in range(length + 1))
    if size > MAX_PREFIXES:
        raise ProblemError(f"{vocab} tokens and L = {length} make more than {MAX_PREFIXES} prefixes; take fewer")
    number: dict[Prefix, int] = {prefix: i for i, prefix in enumerate(prefixes(vocab, length))}
    parent = np.array([-1] + [number[prefix[:-1]] for prefix in number if prefix])
    step, chance = np.ones(size), np.ones(size)
    for prefix in number:
        if len(prefix) < length:
            children = [number[(*prefix, x)] for x in range(vocab)]
            step[children] = model.target(prefix)
            chance[children] = model.draft(prefix)
    drafts = Drafted(parent, chance, np.array([(*shape.branching, 1)[len(prefix)] for prefix in number]))

    below = np.arange(1, size)
    rows = csr_array(
        (np.concatenate((np.ones(size - 1), -step[1:])), (np.tile(below - 1, 2), np.concatenate((below, parent[1:])))),
        shape=(size - 1, size),
    )
    limits = np.zeros(size - 1)
    simple = [(0.0, drafts.meets(np.array([node]))[0]) for node in range(size)]
    simple[0] = (1.0, 1.0)
    known: set[bytes] = set()  # HiGHS may violate them by its tolerance, and they would be found for ever
    for _ in range(ROUNDS):
        found = linprog(  # type: ignore[call-overload]  # its stubs lack sparse rows
            -np.ones(size), A_ub=rows, b_ub=limits, bounds=simple, method="highs"
        )
        if found.x is None:
            raise ArithmeticError(f"HiGHS found no optimum of the bound's program: {found.message}")
        cuts = {key: cut for key, cut in _violated(found.x, drafts).items() if key not in known}
        if not cuts:
            break
        known |= cuts.keys()
        indicator = np.zeros((len(cuts), size))
        for row, cut in enumerate(cuts.values()):
            indicator[row, cut] = 1.0
        rows = vstack((rows, csr_array(indicator)), format="csr")
        limits = np.append(limits, [drafts.meets(cut)[0] for cut in cuts.values()])
    return float(-found.fun - 1.0)


@dataclass(frozen=True)
class Drafted:
    """How a tree is drafted; all arrays are over N prefixes, parents first."""

    parent: IntArray
    """Shape (N,): each prefix without its last token; of the root -1."""
    chance: FloatArray
    """Shape (N,): draft probability of the last token; of the root 1."""
    children: IntArray
    """Shape (N,): how many children are drawn after a prefix."""

    @cached_property
    def _lists(self) -> tuple[list[int], list[float], list[int]]:
        """The three, as python's numbers: loops over elements of arrays take three times as long."""
        return self.parent.tolist(), self.chance.tolist(), self.children.tolist()

    def meets(self, chosen: IntArray) -> tuple[float, FloatArray]:
        """P(the tree meets a set), and of each prefix, if drafted, P(one draw after it goes on to meet the set)."""
        parent, chance, children = self._lists
        inside, hit = [0.0] * len(parent), set(chosen.tolist())
        for node in range(len(parent) - 1, 0, -1):
            own = 1.0 if node in hit else at_least_one(inside[node], children[node])
            inside[parent[node]] += chance[node] * own
        return (1.0 if 0 in hit else at_least_one(inside[0], children[0])), np.array(inside)

    def best(self, accepted: FloatArray, touch: FloatArray) -> IntArray:
        """The set of largest sum of A less P(the tree meets it), by tangents that touch where one draw's chance is."""
        parent, chance, children = self._lists
        slope = (self.children * np.maximum(1.0 - touch, 0.0) ** (self.children - 1)).tolist()
        rest = [at_least_one(x, b) - s * x for x, b, s in zip(touch.tolist(), children, slope, strict=True)]
        price = [1.0] * len(parent)
        for node in range(1, len(parent)):
            price[node] = price[parent[node]] * slope[parent[node]] * chance[node]
        gain = [a - b for a, b in zip(accepted.tolist(), price, strict=True)]
        further = [-a * b for a, b in zip(price, rest, strict=True)]
        for node in range(len(parent) - 1, 0, -1):
            further[parent[node]] += max(gain[node], further[node], 0.0)
        chosen, open_ = [], [True] + [False] * (len(parent) - 1)
        for node in range(1, len(parent)):
            if open_[parent[node]]:
                if gain[node] > max(further[node], 0.0) or (gain[node] > 0.0 and gain[node] >= further[node]):
                    chosen.append(node)
                else:
                    open_[node] = further[node] > 0.0
        return np.array(chosen, dtype=np.int64)


def at_least_one(mass: float, count: int) -> float:
    """Probability that one of `count` draws falls into a set of probability `mass`."""
    return -math.expm1(count * math.log1p(-mass)) if 0.0 < mass < 1.0 else float(mass > 0.0)


def _violated(accepted: FloatArray, drafts: Drafted) -> dict[bytes, IntArray]:
    """Sets of prefixes whose constraint is violated, by their bytes, at most one for each start."""
    cuts: dict[bytes, IntArray] = {}
    starts = np.linspace(0.0, 1.0, SLOPES, endpoint=False)
    below = np.linspace(0.0, 1.0, BELOW) if (drafts.children[1:] > 1).any() else [0.0]
    for start, further in itertools.product(starts, below):
        touch = np.full(accepted.size, further)
        touch[0] = start
        for _ in range(10):  # follow the tangents to where they touch
            chosen = drafts.best(accepted, touch)
            limit, inside = drafts.meets(chosen)
            if np.abs(inside - touch)[inside > 0].max(initial=0.0) <= TOL:
                break
            touch = np.where(inside > 0, inside, touch)
        if accepted[chosen].sum() > limit + TOL:
            cuts[chosen.tobytes()] = chosen
    return cuts
