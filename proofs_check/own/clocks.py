"""Clocks: a joint verifier for siblings of any law, a reference for small models that shows that there is one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np

from otspec.errors import ProblemError
from otspec.laws import FloatArray, IntArray, Seed, as_generator
from otspec.schemes import IID
from otspec.verification.rules.block.block import Picked, PickVerifier
from otspec.verification.rules.token_wise.token_wise import Scheme
from otspec.verification.trees.tree import Tree, check_callable

Rates = Callable[[FloatArray, FloatArray], FloatArray]
"""Target and draft law after a prefix, shape (V,), to a rate > 0 for every token that can be drafted."""

SLOWEST = 2.0**-14
"""Of fitted rates, in units of the fastest: integrands of clocks that differ more lose digits."""
FITS = 60
MOST_STEPS = 500


def _double_exponential() -> tuple[FloatArray, FloatArray]:
    """Nodes tau > 0 and weights of an integral over t = exp(-tau) in [0, 1], whatever the powers of t at its ends.

    The double exponential rule [takahasi1974double]: t = 1 / (1 + exp(-pi sinh x)), trapezoidal in x.
    """
    point = np.arange(-104, 105) / 32
    inner = np.pi * np.sinh(point)
    t, rest = 1.0 / (1.0 + np.exp(-inner)), 1.0 / (1.0 + np.exp(inner))
    tau = np.log1p(np.exp(-inner))  # -log t, to its last digit also where t is close to 1
    return tau, np.pi * np.cosh(point) * t * rest / 32


AT, WEIGHT = _double_exponential()


class Race(NamedTuple):
    """The clocks of one prefix's children, over all that it may draft."""

    rate: FloatArray
    """Shape (V,)."""
    drafts: IntArray
    """Shape (m, n): every tuple of children."""
    chance: FloatArray
    """Shape (m,): its probability."""
    total: FloatArray
    """Shape (m,): the sum of its rates."""
    proposal: FloatArray
    """Shape (V,): g, the law of the next token, given that the picked path goes through the prefix."""

    def log_survival(self, tau: FloatArray) -> FloatArray:
        """log G: of P(no child's clock has rung by tau), over all drafts."""
        least = self.total.min()
        later: FloatArray = np.exp(-np.multiply.outer(tau, self.total - least)) @ self.chance
        return np.log(later) - tau * least

    def others(self, token: int, tau: FloatArray) -> FloatArray:
        """Sum over the children that are this token of P(it is drafted, and no other child's clock has rung by tau)."""
        copies = (self.drafts == token).sum(axis=1)
        at = copies > 0
        rest = np.maximum(self.total[at] - self.rate[token], 0.0)
        silent: FloatArray = np.exp(-np.multiply.outer(tau, rest)) @ (self.chance[at] * copies[at])
        return silent

    def inverse(self, log_t: FloatArray) -> FloatArray:
        """The tau at which log G is so much: log G is convex and falls, so that Newton's steps from 0 stay short."""
        tau = np.zeros_like(log_t)
        for _ in range(MOST_STEPS):
            least = self.total.min()
            weight = np.exp(-np.multiply.outer(tau, self.total - least)) * self.chance
            mass = weight.sum(axis=-1)
            step = (np.log(mass) - tau * least - log_t) / (weight @ self.total / mass)
            tau = tau + np.maximum(step, 0.0)
            if (step <= 1e-16 * tau).all():
                break
        return tau


Races = Callable[[int], Race]
"""By node."""


@dataclass(frozen=True)
class Clocks(PickVerifier):
    """Joint verification for siblings of any law: every child has a clock, the first to ring is picked.

    The children that a prefix drafts, of any joint law, have independent exponential clocks.  A leaf's rings at a
    uniform number of its own; what is below any other prefix rings when the first of its children does, and that time,
    carried to [0, 1] by its law over all drafts, is uniform as well.  So each child's number is uniform whatever hangs
    below it, and the law g of the picked path has a closed form: see `docs/paths.md`.

    A reference: it lists the drafts of every prefix, and is meant for small models.  Trees have to say their
    branching, and each of their slots the children that the scheme drew for it.

    Parameters
    ----------
    scheme : callable
        Draft law q and number of drafts n to the law of a prefix's children.
    rates : callable, optional
        Target and draft law after a prefix to the rates of its children's clocks; any rates are lossless.  By default
        they are fitted, such that tokens are picked in proportion to p as nearly as rates do it.

    Raises
    ------
    ProblemError
        If one cannot be called; on verification, if a rate is not finite and > 0, or a slot lacks children.

    Examples
    --------
    >>> import otspec
    >>> from otspec.paths import synthetic
    >>> from otspec.proofs_check.own.clocks import Clocks
    >>> model = synthetic("tiny", vocab=4)
    >>> tree = model.tree([[0], [2]])  # two distinct children of the root
    >>> law = Clocks(otspec.WithoutReplacement).stop_law(tree)
    >>> print(f"accepted with probability {law[1:].sum():.2f}")
    accepted with probability 0.99
    """

    scheme: Scheme = IID
    rates: Rates | None = None

    def __post_init__(self) -> None:
        check_callable("scheme", self.scheme)
        if self.rates is not None:
            check_callable("rates", self.rates)

    @property
    def exchangeable(self) -> bool:
        """The order of siblings may matter to the scheme."""
        return False

    def pick(self, tree: Tree, rng: Seed) -> Picked:
        """The path whose clock rings first."""
        slots, races, rng = Slots.of(tree), self._races(tree), as_generator(rng, 1)

        def ring(slot: int) -> tuple[float, int]:
            """log t of a slot, and the path below it that rings first."""
            if slots.level[slot] == tree.length:
                return float(np.log1p(-rng.random())), slots.path[slot]
            race = races(slots.node[slot])
            rung = []
            for token, below in slots.children(slot):
                log_t, path = ring(below)
                rung.append((-log_t / race.rate[token], path))
            first, path = min(rung)
            return float(race.log_survival(np.array(first))), path

        path = ring(0)[1]
        return Picked(path, self._proposal(tree, races, path))

    def picks(self, tree: Tree) -> tuple[FloatArray, list[FloatArray]]:
        """Exact probability that each path rings first, shape (K,), and the proposal laws along each."""
        slots, races = Slots.of(tree), self._races(tree)

        def silent(slot: int, log_t: FloatArray) -> FloatArray:
            """P(what is below a slot rings later), given the drafts below it, and its number t at that time."""
            if slots.level[slot] == tree.length:
                return np.exp(log_t)
            race = races(slots.node[slot])
            tau = race.inverse(log_t)
            product = np.ones_like(log_t)
            for token, below in slots.children(slot):
                product *= silent(below, -race.rate[token] * tau)
            return product

        weights = np.zeros(tree.count)
        for path, line in enumerate(tree.draw.tolist()):
            log_t, density = -AT, np.ones_like(AT)
            for slot, above in zip(line[:0:-1], line[-2::-1], strict=True):
                race = races(slots.node[above])
                tau = -log_t / race.rate[tree.token[slots.node[slot]]]
                for token, below in slots.children(above):
                    if below != slot:
                        density = density * silent(below, -race.rate[token] * tau)
                log_t = race.log_survival(tau)
            weights[path] = density @ WEIGHT
        return weights, [self._proposal(tree, races, path) for path in range(tree.count)]

    def _proposal(self, tree: Tree, races: Races, path: int) -> FloatArray:
        """g(x | v) for all v on a path and all x, shape (L, V)."""
        return np.array([races(int(node)).proposal for node in tree.node[path, :-1]])

    def _races(self, tree: Tree) -> Races:
        """The race at each node, made when first asked for."""

        @cache
        def race(node: int) -> Race:
            scheme = self.scheme(tree.draft[node], tree.shape.branching[tree.depth[node]])
            drafts, chance = scheme.support()

            def density(log_t: FloatArray) -> FloatArray:
                """Omega of the node."""
                product, below = np.ones_like(log_t), node
                while below > 0:
                    above, token = race(int(tree.parent[below])), int(tree.token[below])
                    tau = -log_t / above.rate[token]
                    product = product * above.others(token, tau)
                    log_t, below = above.log_survival(tau), int(tree.parent[below])
                return product

            def at(rate: FloatArray) -> Race:
                run = Race(rate, drafts, chance, rate[drafts].sum(axis=1), np.zeros_like(rate))
                for token in np.unique(drafts).tolist():
                    tau = AT / rate[token]
                    run.proposal[token] = WEIGHT @ (run.others(token, tau) * density(run.log_survival(tau)))
                run.proposal[:] /= run.proposal.sum()
                return run

            if self.rates is None:
                return _fitted(tree.target[node], drafts, chance, at)
            rate = np.asarray(self.rates(tree.target[node], tree.draft[node]), dtype=np.float64)
            used = rate[np.unique(drafts)] if rate.shape == tree.target[node].shape else np.zeros(1)
            if not (np.isfinite(used).all() and (used > 0.0).all()):
                raise ProblemError(
                    f"the rates at node {node} are {rate}; pass a finite one > 0 for each token that can be drafted"
                )
            return at(rate)

        return race


def _fitted(p: FloatArray, drafts: IntArray, chance: FloatArray, at: Callable[[FloatArray], Race]) -> Race:
    """The race of the largest sum of min(p, g) on the way to g in proportion to p: rates times p/g, time and again."""
    drafted = np.bincount(drafts.ravel(), weights=np.repeat(chance, drafts.shape[1]), minlength=p.size)
    rate, best = np.divide(p, drafted, out=np.ones_like(p), where=drafted > 0.0), None
    for _ in range(FITS):
        top = rate[drafted > 0.0].max()
        rate = np.clip(rate / top, SLOWEST, 1.0) if top > 0.0 else np.ones_like(p)
        race = at(rate)
        if best is None or np.minimum(p, race.proposal).sum() > np.minimum(p, best.proposal).sum():
            best = race
        rate = rate * np.sqrt(np.divide(p, race.proposal, out=np.ones_like(p), where=race.proposal > 0.0))
    assert best is not None
    return best


class Slots(NamedTuple):
    """The slots of a tree that the scheme filled."""

    node: dict[int, int]
    """What each slot drew."""
    level: dict[int, int]
    path: dict[int, int]
    """The path that ends in a slot of the last level."""
    below: dict[int, list[int]]
    token: IntArray
    """Shape (nodes,)."""

    @classmethod
    def of(cls, tree: Tree) -> Slots:
        """The slots of a tree.

        Raises
        ------
        ProblemError
            If a slot has fewer children than the tree's shape says.
        """
        slots = cls({}, {}, {}, {}, tree.token)
        for path, (line, nodes) in enumerate(zip(tree.draw.tolist(), tree.node.tolist(), strict=True)):
            slots.path[line[-1]] = path
            for level, (slot, node) in enumerate(zip(line, nodes, strict=True)):
                slots.node[slot], slots.level[slot] = node, level
                children = slots.below.setdefault(slot, [])
                if level < tree.length and line[level + 1] not in children:
                    children.append(line[level + 1])
        for slot, children in slots.below.items():
            level = slots.level[slot]
            if level < tree.length and len(children) != tree.shape.branching[level]:
                raise ProblemError(
                    f"slot {slot} has {len(children)} children, and branching {tree.shape.branching} says "
                    f"{tree.shape.branching[level]}; a race needs all that were drawn"
                )
        return slots

    def children(self, slot: int) -> list[tuple[int, int]]:
        """Token and slot of each child."""
        return [(int(self.token[self.node[child]]), child) for child in self.below[slot]]
