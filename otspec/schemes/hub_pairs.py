"""Pairs that share their likeliest token: the draft law of SpecHub."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from otspec.laws import (
    ArrayLike,
    FloatArray,
    IntArray,
    Seed,
    as_drafts,
    as_generator,
    as_law,
    distinct,
    draw_from_cumulative,
)
from otspec.schemes.protocol import DraftScheme, Support


@dataclass(frozen=True, eq=False, init=False, repr=False)
class HubPairs(DraftScheme):
    """Two drafts, one of which is always the *hub*, the likeliest token of q [sun2024spechub].

    Draw i from q; the pair is (i, hub), or, where i is the hub itself, (hub, j) with j drawn from q off the hub.  The
    other token has the law `others` either way, so the optimum is that of greedy drafts at n = 2 [hu2025towards],
    which always draft the hub and draw the second token from `others`.

    Parameters
    ----------
    q : array_like, shape (V,)
        Draft next-token probabilities, checked and scaled as in `otspec.laws.as_law`.  If all its mass lies on one
        token, both drafts are that token.

    Raises
    ------
    ProblemError
        If q is not a law.

    Examples
    --------
    >>> import otspec
    >>> scheme = otspec.HubPairs([0.2, 0.3, 0.5])
    >>> scheme.n
    2
    >>> print(f"{sum(scheme.prob(pair) for pair in ([0, 2], [2, 0], [1, 2], [2, 1])):.2f}")  # token 2 is the hub
    1.00
    """

    q: FloatArray
    n: int
    vocab: int

    def __init__(self, q: ArrayLike) -> None:
        object.__setattr__(self, "q", as_law("q", q))
        object.__setattr__(self, "n", 2)
        object.__setattr__(self, "vocab", self.q.size)

    @cached_property
    def hub(self) -> int:
        """The likeliest token, the first one at a tie."""
        return int(self.q.argmax())

    @cached_property
    def others(self) -> FloatArray:
        """Law of the token beside the hub, shape (V,): q off the hub, divided by its own sum and not by 1 - q(hub)."""
        law = self.q.copy()
        law[self.hub] = 0.0
        total = law.sum()
        if total == 0:
            law[self.hub] = total = 1.0
        return law / total

    @cached_property
    def _cumulative(self) -> FloatArray:
        return np.cumsum(self.q)

    @cached_property
    def _others_cumulative(self) -> FloatArray:
        return np.cumsum(self.others)

    def sample(self, rng: Seed, size: int | None = None) -> IntArray:
        rng = as_generator(rng)
        first = draw_from_cumulative(self._cumulative, rng, size)
        other = draw_from_cumulative(self._others_cumulative, rng, size)
        return np.stack((first, np.where(first == self.hub, other, self.hub)), axis=-1)

    def prob(self, drafts: IntArray) -> FloatArray:
        first, second = np.moveaxis(as_drafts(drafts, 2, self.vocab), -1, 0)
        hub_first = self.q[self.hub] * self.others[second]
        return np.where(first == self.hub, hub_first, np.where(second == self.hub, self.q[first], 0.0))

    def hit_chain(self, order: IntArray) -> FloatArray:
        inside = np.minimum(np.cumsum(self.others[order]), 1.0)
        inside[int(np.flatnonzero(order == self.hub)[0]) :] = 1.0
        inside[-1] = 1.0
        return np.concatenate(([0.0], inside))

    def priority_law(self, order: IntArray) -> FloatArray:
        # Tokens before the hub win when drawn; the hub wins against all after it.
        place = int(np.flatnonzero(order == self.hub)[0])
        law = np.zeros(self.vocab)
        law[order[:place]] = self.others[order[:place]]
        law[self.hub] = self.others[order[place:]].sum()
        return law

    def reachable(self) -> IntArray:
        reached = self.q > 0
        reached[self.hub] = True
        return np.flatnonzero(reached)

    def compact(self) -> HubPairs:
        return HubPairs(np.append(self.q[self.reachable()], 0.0))

    def support_size(self) -> int:
        return 2 * int(np.count_nonzero(self.q))

    def support(self) -> Support:
        tokens = np.flatnonzero(self.others)
        # A number each: to sort pairs takes 100 times as long.
        pairs = distinct(np.concatenate((tokens * self.vocab + self.hub, self.hub * self.vocab + tokens)))
        drafts = np.column_stack(np.divmod(pairs, self.vocab))
        return Support.of(drafts, self.prob(drafts))

    def set_count(self) -> int:
        return int(np.count_nonzero(self.others))

    def prefix_order(self, p: FloatArray) -> IntArray:
        # A set with the hub is hit for sure, so the whole vocabulary does as well; one without it is judged token by
        # token.  Hence decreasing p / others, first what no draft can reach, and the hub last.
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            ratio = np.where(self.others > 0, p / self.others, np.inf)
        ratio[self.hub] = -1.0
        return np.argsort(-ratio, kind="stable")

    def first_draft(self) -> FloatArray:
        return self.q

    def inclusion(self) -> FloatArray:
        inclusion = self.others.copy()
        inclusion[self.hub] = 1.0
        return inclusion
