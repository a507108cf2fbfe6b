"""An upper bound on what any decoder can accept, at any size of the vocabulary, by sampling: Theorem 5.

`docs/paths.md` has the statement, its two hypotheses and the proof.  In short: for every text v of the target
and every level l, A(v_l) <= A(v_j) p(v_l | v_j) for any j <= l, in particular for the j where q/p is least in a window
of levels, if it is below a cut.  In the mean over models the right-hand side is A(v_j) times a number that is known at
v_j.  The sum of these numbers along the accepted prefix is at most its largest value over the drafted paths.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from otspec.errors import ProblemError
from otspec.laws import BoolArray, FloatArray, Seed, as_count, as_generator, draw
from otspec.verification.evaluation.accepted_length import (
    Estimate,
    Line,
    Models,
    law_of_models,
    laws_after,
    model_seeds,
    target_line,
)
from otspec.verification.trees.shape import Shape
from otspec.verification.trees.tree import Model, Prefix, as_shape

RESOLUTION = 2.0**20
"""log q/p of a token is rounded to multiples of 1 / RESOLUTION and cut off at RESOLUTION: sums are then exact, so that
ties are ties.  The bound holds for any such number in place of it."""

CUTS = np.concatenate(([-np.inf], np.log(2.0) * np.arange(-6.0, 3.25, 0.25), [np.inf]))
"""Logarithms of the cuts that are tried; the first is never, the last always."""
SWEEPS = 2


@dataclass(frozen=True)
class CausalBound(Estimate):
    """An estimate of an upper bound, which errs upwards if at all, and what it was found with.

    Examples
    --------
    >>> from functools import partial
    >>> from otspec.verification import causal_bound, synthetic
    >>> most = causal_bound(partial(synthetic, "mixed", 20), count=2, length=2, samples=50)
    >>> print(f"{most.value:.1f} +- {most.error:.1f}, by {most.samples} texts, from windows of {most.window}")
    1.9 +- 0.1, by 50 texts, from windows of 2
    """

    window: int
    """w: the least q/p is taken over the last w levels."""
    cuts: tuple[float, ...]
    """c_1, ..., c_L: below which it counts."""
    samples: int
    """Texts that the bound is a mean over: as many trees, and as many of both to find window and cuts with."""


class Ratios(NamedTuple):
    """log q/p of single tokens; every text and every tree is from a model of its own."""

    texts: FloatArray
    """Shape (samples, L): along texts of the target."""
    trees: FloatArray
    """Shape (samples, leaves, L): along the paths of drafted trees."""


def causal_bound(
    models: Models, count: int, length: int, samples: int = 1000, rng: Seed = 0, windows: Iterable[int] | None = None
) -> CausalBound:
    """Upper bound on the mean number of accepted tokens of every lossless verifier of K paths of L tokens.

    It holds under two hypotheses only (`docs/paths.md`, Theorem 5):

    * The verifier reads the laws after drafted prefixes, as every decoder does, and no others.  The *causal* ones
      among them read no law behind v or beside it before they decide on v.
    * The laws after different prefixes are *independent*, and those after prefixes of equal length have one
      distribution, as in `synthetic` and `recorded_model`.  The bound is on the mean over models, not on one of them.

    One sample finds window and cuts, an independent one estimates the bound that they give.

    Parameters
    ----------
    models : callable
        The law of models: from a seed to a `Model`.  Nothing checks the second hypothesis.
    count, length : int
        K and L.
    samples : int
        Texts, and drafted trees, in each of the two samples, >= 2.
    rng : Generator or int
    windows : iterable of int, optional
        Which numbers of levels to try as windows; by default all from 1 to L.

    Raises
    ------
    ProblemError
        If `models` is a single model, or the other arguments are not as above.

    Examples
    --------
    >>> from functools import partial
    >>> from otspec.verification import causal_bound, synthetic
    >>> models = partial(synthetic, "close", 1000)  # 1000 tokens; a seed gives the models
    >>> print(f"{causal_bound(models, count=1, length=3, samples=50).value:.1f} of 3 tokens, on average")
    2.7 of 3 tokens, on average
    """
    return causal_tree_bound(models, Shape.paths(count, length).branching, samples, rng, windows)


def causal_tree_bound(
    models: Models, branching: Sequence[int], samples: int = 1000, rng: Seed = 0, windows: Iterable[int] | None = None
) -> CausalBound:
    """`causal_bound` for trees in which every node of level l has `branching[l]` children, all drawn independently.

    Raises
    ------
    ProblemError
        As `causal_bound`, and if `branching` is no sequence of integers >= 1.

    Examples
    --------
    >>> from functools import partial
    >>> from otspec.verification import causal_tree_bound, synthetic
    >>> models = partial(synthetic, "mixed", 20)
    >>> for branching in (1, 1), (2, 2):  # more drafts, more that may be accepted
    ...     print(branching, f"{causal_tree_bound(models, branching, samples=50).value:.1f}")
    (1, 1) 1.5
    (2, 2) 2.0
    """
    if isinstance(models, Model):
        raise ProblemError(
            "models is a single model, and the bound is on a mean over models with independent laws; pass a function "
            'of a seed, such as functools.partial(otspec.verification.evaluation.synthetic, "mixed", 1000)'
        )
    models, shape, rng = law_of_models(models), as_shape(branching), as_generator(rng)
    checked = _windows(windows, shape.depth)
    first, second = (draw_ratios(models, shape, samples, rng) for _ in range(2))
    return bound_of(first, second, checked)


def _windows(windows: Iterable[int] | None, length: int) -> tuple[int, ...]:
    if windows is None:
        return tuple(range(1, length + 1))
    if isinstance(windows, str | bytes) or not isinstance(windows, Iterable):
        raise ProblemError(f"windows is {windows!r}; pass the numbers of levels to try, such as (1, 2, 4)")
    checked = tuple(as_count("windows", window) for window in windows)
    if not checked:
        raise ProblemError("windows is empty; pass the numbers of levels to try, such as (1, 2, 4)")
    return checked


def draw_ratios(models: Models, shape: Shape, samples: int, rng: np.random.Generator) -> Ratios:
    """Draw texts of the target and trees of the draft, each from a model of its own."""
    texts = [line_ratios(target_line(models(seed), shape.depth, rng)) for seed in model_seeds(samples, rng)]
    trees = [tree_ratios(models(seed), shape, rng) for seed in model_seeds(samples, rng)]
    return Ratios(np.array(texts), np.array(trees))


def line_ratios(line: Line) -> FloatArray:
    """log q/p of the tokens of a text of the target, shape (L,)."""
    laws = zip(line.target, line.draft, line.tokens.tolist(), strict=True)
    return np.array([log_ratio(float(p[token]), float(q[token])) for p, q, token in laws])


def tree_ratios(model: Model, shape: Shape, rng: np.random.Generator) -> FloatArray:
    """log q/p of the tokens along the paths of a drafted tree, shape (leaves, L)."""
    prefixes: list[Prefix] = [()]
    ratios = np.zeros(shape.slots)
    for slot, above in enumerate(shape.parent[1:].tolist(), start=1):
        p, q = laws_after(model, prefixes[above])
        token = int(draw(q, rng))
        ratios[slot] = log_ratio(float(p[token]), float(q[token]))
        prefixes.append((*prefixes[above], token))
    return ratios[shape.paths_of_slots[:, 1:]]


def log_ratio(p: float, q: float) -> float:
    """log q/p, rounded to multiples of 1 / `RESOLUTION`; one of the two is positive."""
    if not q > 0.0 or not p > 0.0:
        return -RESOLUTION if p > 0.0 else RESOLUTION
    return float(np.rint((np.log(q) - np.log(p)) * RESOLUTION) / RESOLUTION)


def bound_of(first: Ratios, second: Ratios, windows: Sequence[int]) -> CausalBound:
    """The bound by the second sample, with the window and the cuts that are best on the first."""
    window, cuts = min((_best_cuts(Sums.of(first, window)) for window in windows), key=lambda found: found[0])[1]
    texts, trees = Sums.of(second, window).influences(cuts)
    error = np.sqrt(texts.var(ddof=1) / texts.size + trees.var(ddof=1) / trees.size)
    value = float(texts.mean() + trees.mean())
    return CausalBound(value, float(error), window, tuple(np.exp(cuts).tolist()), texts.size)


@dataclass(frozen=True, eq=False)
class Sums:
    """What the bound is made of, for one sample and window."""

    window: int
    stays: BoolArray
    """Shape (samples, L, L), of texts: whether q/p of the first j tokens is the least one from level j to l >= j."""
    least: FloatArray
    """Shape (samples, L), of texts: the logarithm of the least q/p in the window of each level."""
    position: FloatArray
    """Shape (samples, L): the level, from 0 on, where it is."""
    ratio: FloatArray
    """Shape (samples, leaves, L), of trees: log of q/p of the first j tokens of a path."""
    leads: BoolArray
    """Shape (samples, leaves, L, L): whether it is below all those before it in the window of level l >= j."""
    count: FloatArray
    """Shape (samples, leaves, L): how many levels are to be bounded by A of the first j tokens: y without the cut."""

    @classmethod
    def of(cls, ratios: Ratios, window: int) -> Sums:
        """From log q/p of single tokens."""
        samples, length = ratios.texts.shape
        stays = np.zeros((samples, length, length), dtype=bool)
        for j in range(length):
            after = np.cumsum(ratios.texts[:, j + 1 :], axis=1)
            stays[:, j, j] = True
            stays[:, j, j + 1 :] = np.minimum.accumulate(after, axis=1) >= 0.0
        text, ratio = np.cumsum(ratios.texts, axis=-1), np.cumsum(ratios.trees, axis=-1)
        begins = [max(0, level - window + 1) for level in range(length)]
        position = np.stack([b + text[:, b : level + 1].argmin(axis=1) for level, b in enumerate(begins)], axis=1)
        leads = np.zeros((*ratio.shape, length), dtype=bool)
        for level, begin in enumerate(begins):
            before = np.full(ratio.shape[:-1], np.inf)
            for j in range(begin, level + 1):
                leads[..., j, level] = ratio[..., j] < before
                before = np.minimum(before, ratio[..., j])
        count = np.einsum("skjl,jl->skj", leads, stays.mean(axis=0))
        return cls(window, stays, np.take_along_axis(text, position, axis=1), position, ratio, leads, count)

    def value(self, cuts: FloatArray) -> float:
        """The bound by this sample, for the logarithms of c, shape (L,)."""
        return self._uncovered(cuts).mean() + self._largest(np.where(self.ratio < cuts, self.count, 0.0)).mean()

    def influences(self, cuts: FloatArray) -> tuple[FloatArray, FloatArray]:
        """A value for each text and each tree whose means sum to the bound, and that vary as its estimate does.

        A text counts not only by the levels that no J covers, but also by the probabilities that are estimated from it.

        Parameters
        ----------
        cuts : ndarray, shape (L,)
            The logarithms of c.

        Returns
        -------
        texts, trees : ndarray, shape (samples,)
        """
        counted = np.where(self.ratio < cuts, self.count, 0.0)
        best = counted.sum(axis=-1).argmax(axis=1)
        rows = np.arange(best.size)
        used = self.leads[rows, best] & (self.ratio[rows, best] < cuts)[:, :, None]
        weight = used.mean(axis=0)
        deviations = np.einsum("sjl,jl->s", self.stays - self.stays.mean(axis=0), weight)
        return self._uncovered(cuts) + deviations, self._largest(counted)

    def _uncovered(self, cuts: FloatArray) -> FloatArray:
        """For how many levels of each text J is 0."""
        return (self.least >= cuts[self.position]).sum(axis=1).astype(np.float64)

    def _largest(self, counted: FloatArray) -> FloatArray:
        return counted.sum(axis=-1).max(axis=1)


def _best_cuts(sums: Sums) -> tuple[float, tuple[int, FloatArray]]:
    """The bound by this sample, with the window, and the cuts that descent in one of them at a time leads to."""
    length = sums.ratio.shape[-1]
    value, cut = min((sums.value(np.full(length, cut)), cut) for cut in CUTS.tolist())
    cuts = np.full(length, cut)
    for _ in range(SWEEPS):
        for level in range(length - 1, -1, -1):
            tried = np.tile(cuts, (CUTS.size, 1))
            tried[:, level] = CUTS
            values = [sums.value(these) for these in tried]
            best = int(np.argmin(values))
            if values[best] < value:
                value, cuts = values[best], tried[best]
    return value, (sums.window, cuts)
