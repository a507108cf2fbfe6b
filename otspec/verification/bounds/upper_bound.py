"""An upper bound on what any lossless verifier of i.i.d. drafts can accept, for small models."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array, vstack

from otspec.errors import ProblemError
from otspec.laws import BoolArray, FloatArray
from otspec.tolerances import TOL
from otspec.verification.reference.enumeration import checked, prefixes
from otspec.verification.trees.shape import Shape
from otspec.verification.trees.tree import Model, as_shape, check_model

MAX_PREFIXES = 2_000
ROOT_SLOPES, SLOPES, SHARES = 40, 80, 129
"""Of tangents at the root and below it, and of what a prefix costs at most: the grid from which a separation starts."""
MORE = (1.001, 1.01)
"""Factors of A with which it starts, too: by tangents that touch beside the best places violated sets gain nothing."""
MOST = 40
"""Constraints that a separation adds, the most violated ones."""
ROUNDS, PATIENCE, STALLED = 400, 10, 1e-8
"""Rounds at most; and how many in a row may lower the bound by less than that in all, as optima are rarely unique."""
CHORDS, INWARD = 20, 0.2
"""Separations of a round at most; and how far inside of what they left the next round starts, of the way to there."""
SLACK, AGE = 1e-6, 10
"""A constraint with more slack than that leaves the program after so many rounds in a row."""
TIGHT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
"""Of HiGHS's program, whose bound is a sum of many constraints that it may each violate by its tolerance."""


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
    over the tree.  Where only the root branches all tangents are found that matter; elsewhere those of a grid are,
    and the bound was up to 1e-5 above that with all constraints, on models of 2 and 3 tokens.  It is valid whatever
    is not found.

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
    above = list(prefixes(vocab, length - 1))
    step = np.concatenate([model.target(prefix) for prefix in above])
    drafts = Drafted(vocab, shape.branching, np.concatenate([model.draft(prefix) for prefix in above]))

    node, parent = np.arange(1, size), np.arange(size - 1) // vocab
    rows = csr_array(
        (np.concatenate((np.ones(size - 1), -step)), (np.tile(node - 1, 2), np.concatenate((node, parent)))),
        shape=(size - 1, size),
    )
    limits = np.zeros(size - 1)
    simple = np.column_stack((np.zeros(size), drafts.meets(np.eye(size, dtype=bool))[0]))
    simple[0] = 1.0
    inner, ages, values = np.eye(1, size)[0], np.zeros(0, dtype=np.int64), list[float]()
    while len(values) < ROUNDS and not (len(values) > PATIENCE and values[-1 - PATIENCE] - values[-1] < STALLED):
        found = linprog(  # type: ignore[call-overload]  # its stubs lack sparse rows
            -np.ones(size), A_ub=rows, b_ub=limits, bounds=simple, method="highs", options=TIGHT
        )
        if found.x is None:
            raise ArithmeticError(f"HiGHS found no optimum of the bound's program: {found.message}")
        values.append(float(-found.fun - 1.0))
        cuts, edge = _violated_between(inner, found.x, drafts)
        inner = INWARD * inner + (1.0 - INWARD) * edge
        if not cuts or values[-1] - (inner.sum() - 1.0) < STALLED:
            break
        ages = np.where(found.slack[size - 1 :] < SLACK, 0, ages + 1)
        stays = np.append(np.ones(size - 1, dtype=bool), ages < AGE)
        chosen = csr_array(np.array([cut.chosen for cut in cuts], dtype=np.float64))
        rows = vstack((rows[stays], chosen), format="csr")
        limits = np.append(limits[stays], [cut.limit for cut in cuts])
        ages = np.append(ages[ages < AGE], np.zeros(len(cuts), dtype=np.int64))
    return values[-1]


@dataclass(frozen=True)
class Drafted:
    """How a tree is drafted.

    Arrays over its N prefixes have the root first, then level after level, and the V prefixes that go on from one are
    neighbours.  Sets of prefixes of which none begins another come as rows of indicators, shape (sets, N).
    """

    vocab: int
    branching: tuple[int, ...]
    """How many children are drawn after a prefix, level by level."""
    chance: FloatArray
    """Shape (N - 1,): draft probability of the last token of each prefix below the root."""

    def levels(self, values: np.ndarray) -> list[np.ndarray]:
        """Views of an array of shape (..., N), level by level."""
        ends = np.cumsum([self.vocab**level for level in range(len(self.branching))])
        return np.split(values, ends, axis=-1)

    @cached_property
    def chances(self) -> list[np.ndarray]:
        """`chance` by level; that of the root is 1."""
        return self.levels(np.append(1.0, self.chance))

    @property
    def branches_below_root(self) -> bool:
        """Whether more than one child is drawn somewhere below the root."""
        return max(self.branching[1:], default=1) > 1

    def above(self, values: np.ndarray) -> np.ndarray:
        """All levels of an array of shape (..., N) but the last."""
        return values[..., : -self.levels(values)[-1].shape[-1]]

    def meets(self, chosen: BoolArray) -> tuple[FloatArray, FloatArray]:
        """P(the tree meets a set), and of each prefix, if drafted, P(one draw after it goes on to meet the set)."""
        sets, inside = self.levels(chosen), np.zeros(chosen.shape)
        own, masses = sets[-1].astype(np.float64), self.levels(inside)
        for level in reversed(range(len(self.branching))):
            masses[level][:] = self._sums(self.chances[level + 1] * own)
            own = np.where(sets[level], 1.0, at_least_one(masses[level], self.branching[level]))
        return own[:, 0], inside

    def best(self, accepted: FloatArray, touch: FloatArray) -> BoolArray:
        """The sets of largest sum of A less P(the tree meets them), by tangents in place of powers.

        There is one for each row of `touch`, which `touching` gives.
        """
        touches, price = self.levels(touch), [np.ones((len(touch), 1))]
        rests = []
        for x, b, chance in zip(touches, self.branching, self.chances[1:], strict=False):
            slope, rest = tangent(x, b)
            rests.append(price[-1] * rest)
            price.append(np.repeat(price[-1] * slope, self.vocab, axis=-1) * chance)
        gain = [a - b for a, b in zip(self.levels(accepted), price, strict=True)]
        further = [np.zeros_like(gain[-1])]
        for rest, below in zip(reversed(rests), reversed(gain), strict=False):
            further.append(self._sums(np.maximum(np.maximum(below, further[-1]), 0.0)) - rest)
        chosen, go_on = [np.zeros((len(touch), 1), dtype=bool)], np.ones((len(touch), 1), dtype=bool)
        for ours, after in zip(gain[1:], further[-2::-1], strict=True):
            reached, take = np.repeat(go_on, self.vocab, axis=-1), (ours > 0.0) & (ours >= after)
            chosen.append(reached & take)
            go_on = reached & ~take & (after > 0.0)
        return np.concatenate(chosen, axis=-1)

    def tangents(self, accepted: FloatArray) -> list[FloatArray]:
        """Where tangents of levels 1 to L - 1 touch best, each of shape (`SHARES`, V**level).

        The more draws above a prefix may meet a set, the less it costs to add the prefix.  A row is for a share of its
        largest price, that if tangents above it touch at 0; between two shares the gain is interpolated.
        """
        ours, most = self.levels(accepted), [np.ones(1)]
        for b, chance in zip(self.branching, self.chances[1:], strict=True):
            most.append(np.repeat(most[-1] * b, self.vocab) * chance)
        shares = np.linspace(0.0, 1.0, SHARES)[:, None]
        value = np.maximum(ours[-1] - shares * most[-1], 0.0)
        best: list[FloatArray] = []
        for level in reversed(range(1, len(self.branching))):
            b = self.branching[level]
            touch = where_slope_is(np.linspace(1.0, 0.0, SLOPES) if b > 1 else np.ones(1), b)
            slope, rest = tangent(touch, b)
            place = shares * (slope / b) * (SHARES - 1)
            below = self._sums(value)
            low, high = below[np.floor(place).astype(np.int64)], below[np.ceil(place).astype(np.int64)]
            further = low + np.modf(place)[0][..., None] * (high - low)
            further -= (shares * rest)[..., None] * most[level]
            best.insert(0, touch[further.argmax(axis=1)])
            value = np.maximum(np.maximum(further.max(axis=1), ours[level] - shares * most[level]), 0.0)
        return best

    def touching(self, root: FloatArray, tangents: list[FloatArray]) -> FloatArray:
        """Where all tangents touch, shape (sets, N - V**L), for where those at the root do, shape (sets,)."""
        touch = [root[:, None]]
        share = np.ones((root.size, 1))
        for b, best in zip(self.branching, tangents, strict=False):
            share = np.repeat(share * (tangent(touch[-1], b)[0] / b), self.vocab, axis=-1)
            touch.append(np.take_along_axis(best, np.rint(share * (SHARES - 1)).astype(np.int64), axis=0))
        return np.concatenate(touch, axis=-1)

    def _sums(self, values: FloatArray) -> FloatArray:
        """Over the children of each prefix of the level above."""
        return values.reshape(len(values), -1, self.vocab).sum(axis=-1)


def where_slope_is(share: FloatArray, count: int) -> FloatArray:
    """Mass at which `at_least_one` rises by a share of how much it does at 0."""
    return 1.0 - share ** (1.0 / max(count - 1, 1))


def at_least_one(mass: FloatArray, count: int) -> FloatArray:
    """Probability that one of `count` draws falls into a set of probability `mass`."""
    with np.errstate(divide="ignore"):
        return -np.expm1(count * np.log1p(-np.minimum(mass, 1.0)))


def tangent(touch: FloatArray, count: int) -> tuple[FloatArray, FloatArray]:
    """The tangent of `at_least_one` that touches at a mass: its slope, and its height at 0."""
    slope = count * (1.0 - touch) ** (count - 1)
    return slope, at_least_one(touch, count) - slope * touch


class Candidate(NamedTuple):
    """A set of prefixes of which none begins another, and what its constraint says."""

    chosen: BoolArray
    """Shape (N,)."""
    accepted: float
    """The sum of A over it."""
    limit: float
    """P(the tree meets it)."""
    inside: float
    """P(one draw after the root goes on to meet it)."""


def _violated_between(inner: FloatArray, outer: FloatArray, drafts: Drafted) -> tuple[list[Candidate], FloatArray]:
    """Constraints that are violated at the outer point and on the way to it, and where the way leaves all of them.

    Those at the outer point alone are many before the bound falls: the program's optimum leaps from one corner to the
    next.  Where a chord from inside meets the most violated ones, others are violated that hold the optimum more
    tightly (the supporting hyperplanes of Veinott, 1967).

    Parameters
    ----------
    inner : ndarray
        A(v) for which no violated constraint was found, shape (N,).
    outer : ndarray
        The program's optimum, shape (N,).
    drafts : Drafted
    """
    cuts: dict[bytes, Candidate] = {}
    way, there = outer - inner, outer
    for _ in range(CHORDS):
        new = _violated(there, drafts)
        if not new:
            break
        cuts |= {one.chosen.tobytes(): one for one in new}
        chosen, limits = np.array([one.chosen for one in new]), np.array([one.limit for one in new])
        ahead, speed = np.maximum(limits - chosen @ inner, 0.0), np.maximum(chosen @ way, np.finfo(np.float64).tiny)
        there = inner + way * (ahead / speed).min()
    return list(cuts.values()), there


def _violated(accepted: FloatArray, drafts: Drafted) -> list[Candidate]:
    """Sets of prefixes whose constraint is violated, the `MOST` most violated ones.

    Tangents at the root start from a grid.  Then they are those for which two neighbours on the upper hull of all
    (P(one draw goes on to meet a set), sum of A) are equal, as long as that shows further corners.  If nothing
    branches below the root, these are all of the hull's, and a most violated set is among them.  Otherwise sets that
    were found have their own tangents, which touch where they are, and these may show better ones.
    """
    first = drafts.branching[0]
    found: dict[bytes, Candidate] = {}

    def add(chosen: BoolArray) -> FloatArray:
        """Where the tangents of those that are new touch."""
        limits, inside = drafts.meets(chosen)
        new = np.array([one.tobytes() not in found for one in chosen])
        for one in map(Candidate, chosen, (chosen @ accepted).tolist(), limits.tolist(), inside[:, 0].tolist()):
            found.setdefault(one.chosen.tobytes(), one)
        return drafts.above(inside[new])

    tangents = drafts.tangents(accepted)
    touch = where_slope_is(np.linspace(1.0, 0.0, ROOT_SLOPES), first)
    starts = drafts.touching(touch, tangents)
    factors = (1.0, *MORE) if drafts.branches_below_root else (1.0,)
    own = add(np.concatenate([drafts.best(more * accepted, starts) for more in factors]))
    while drafts.branches_below_root and own.size:
        own = add(drafts.best(accepted, own))
    edges: set[tuple[bytes, bytes]] = set()
    while new := [edge for edge in itertools.pairwise(_upper_hull(found)) if edge not in edges]:
        edges.update(new)
        ends = [(found[left], found[right]) for left, right in new]
        slopes = np.array([(b.accepted - a.accepted) / (b.inside - a.inside) for a, b in ends])
        touch = where_slope_is(np.clip(slopes / first, 0.0, 1.0), first)
        add(drafts.best(accepted, drafts.touching(touch, tangents)))
    violated = [one for one in found.values() if one.accepted > one.limit + TOL]
    return sorted(violated, key=lambda one: one.limit - one.accepted)[:MOST]


def _upper_hull(found: dict[bytes, Candidate]) -> list[bytes]:
    """Corners of the upper hull of (P(one draw goes on to meet a set), sum of A), from left to right."""
    hull: list[bytes] = []
    for key, one in sorted(found.items(), key=lambda item: (item[1].inside, -item[1].accepted)):
        if hull and one.inside == found[hull[-1]].inside:
            continue
        while len(hull) > 1:
            before, last = found[hull[-2]], found[hull[-1]]
            to_last, to_one = last.inside - before.inside, one.inside - before.inside
            if (last.accepted - before.accepted) * to_one > (one.accepted - before.accepted) * to_last:
                break
            hull.pop()
        hull.append(key)
    return hull
