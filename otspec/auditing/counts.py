"""The draws of one law, counted, and the evidence that they are not independent draws from p, or hit too often."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from otspec.auditing.evidence import (
    at_look,
    log_dependence,
    log_evidence,
    log_excess,
    mean_of,
    rate_radius,
    tv_radius,
)
from otspec.laws import BoolArray, FloatArray, IntArray, falling_ratio, likeliest, sum_by

MAX_CELLS = 32
"""A larger vocabulary is grouped: the likeliest tokens stand alone, all others are grouped by p/q."""

ALONE, GROUPS = 16, 12
"""How many tokens of a larger vocabulary stand alone, and how many groups of about equal p the others form."""

PAIR_CELLS = 8
"""Pairs of tokens are told apart by so many cells: the likeliest tokens, and one for all others."""

LAGS = (*range(2, 17), 24, 32, 48, 64, 128, 256, 512, 1024)
"""Tokens of one instance so many draws apart are paired, besides neighbours: noise may come back later."""


def cells_of(p: FloatArray, q: FloatArray) -> IntArray:
    """The group of each token, shape (V,), of laws p of shape (V,) and q of shape (V,) or (n, V).

    Tokens of p = 0 are apart from all others.
    """
    if p.size <= MAX_CELLS:
        return np.arange(p.size)
    drafted = q if q.ndim == 1 else q.mean(axis=0)
    cells = np.zeros(p.size, dtype=np.int64)
    alone = np.union1d(likeliest(p, ALONE // 2), likeliest(drafted, ALONE // 2))
    order = falling_ratio(p, drafted)
    order = order[~np.isin(order, alone) & (p[order] > 0)]
    if order.size:
        below = np.cumsum(p[order])
        cells[order] = 1 + np.minimum((GROUPS * below / below[-1]).astype(np.int64), GROUPS - 1)
    cells[alone] = 1 + GROUPS + np.arange(alone.size)
    return np.unique(cells, return_inverse=True)[1].astype(np.int64)


class Measured(NamedTuple):
    """What a look at the draws measures; the intervals hold together."""

    tv: float
    """Total variation of the shares of the draws to p, over groups if there are any."""
    interval: tuple[float, float]
    """Confidence interval of the total variation of the law of the draws to p."""
    rate: float
    """Share of the draws that were hits."""
    rate_error: float
    """How far the share may exceed its probability."""
    tv_tokens: float
    """Upper bound of the total variation token by token."""


@dataclass(eq=False)
class Counts(ABC):
    """The draws of what should have law p, in texts of two tokens; a hit is what a lossless rule has only so often."""

    p: FloatArray
    """Target law, shape (V,)."""
    q: FloatArray
    """Draft law, shape (V,) or (n, V): tokens of about equal p/q are grouped."""
    simultaneous: bool
    """Whether texts are drawn in one batch, step by step, rather than one after the other."""
    tokens: IntArray = field(init=False)
    """Draws of each token, shape (V,)."""
    firsts: IntArray = field(init=False)
    """First tokens of texts, shape (V,), which are independent even where the second repeats the noise of the first."""
    within: IntArray = field(init=False)
    """Pairs of tokens of one text, shape (cells, cells)."""
    across: IntArray = field(init=False)
    """Pairs of neighbouring texts, shape (cells, cells): the last token of one and the first of the next, or first
    tokens in one batch."""
    lagged: IntArray = field(init=False)
    """Pairs of tokens that were drawn `LAGS` after one another, shape (lags, cells, cells)."""
    hits: int = field(default=0, init=False)
    """Draws that were hits."""
    draws: int = field(default=0, init=False)
    """Tokens that were drawn."""
    looks: int = field(default=0, init=False)
    """How often the draws were looked at."""
    _series: IntArray = field(init=False)
    """Coarse groups of the last tokens, in the order of the draws, shape (count,)."""

    def __post_init__(self) -> None:
        self.tokens, self.firsts = (np.zeros(self.p.size, dtype=np.int64) for _ in range(2))
        self.within, self.across = (np.zeros((self.pair_law.size,) * 2, dtype=np.int64) for _ in range(2))
        self.lagged = np.zeros((len(LAGS), *self.within.shape), dtype=np.int64)
        self._series = np.empty(0, dtype=np.int64)

    @property
    @abstractmethod
    def optimum(self) -> float | None:
        """The largest share of hits of any lossless rule; None if it is not known."""

    @cached_property
    def cells(self) -> IntArray:
        """Group of each token, shape (V,)."""
        return cells_of(self.p, self.q)

    @property
    def grouped(self) -> bool:
        """Whether some group has several tokens."""
        return self.law.size < self.p.size

    @cached_property
    def law(self) -> FloatArray:
        """Target law of the groups, shape (groups,)."""
        return sum_by(self.cells, self.p, int(self.cells.max()) + 1)

    @cached_property
    def pair_cells(self) -> IntArray:
        """Coarser group of each token, shape (V,), of which pairs are counted."""
        named = likeliest(self.p, min(PAIR_CELLS - 1, self.p.size))
        cells = np.full(self.p.size, named.size)
        cells[named] = np.arange(named.size)
        return cells

    @cached_property
    def pair_law(self) -> FloatArray:
        """Target law of the coarser groups, shape (cells,)."""
        return sum_by(self.pair_cells, self.p, PAIR_CELLS)

    def count(self, tokens: IntArray, hits: BoolArray) -> None:
        """Count more texts, both of shape (texts, 2)."""
        self.draws += tokens.size
        self.tokens += np.bincount(tokens.ravel(), minlength=self.tokens.size)
        self.firsts += np.bincount(tokens[:, 0], minlength=self.tokens.size)
        self.hits += int(hits.sum())
        pairs = self.pair_cells[tokens]
        np.add.at(self.within, (pairs[:, 0], pairs[:, 1]), 1)
        np.add.at(self.across, (pairs[:-1, 0 if self.simultaneous else 1], pairs[1:, 0]), 1)
        self._count_lagged(pairs.T.ravel() if self.simultaneous else pairs.ravel())

    def _count_lagged(self, more: IntArray) -> None:
        """Count the pairs whose later token is new; a batch is read column by column, row after row."""
        series = np.concatenate((self._series, more))
        for place, lag in enumerate(LAGS):
            first = max(self._series.size, lag)
            if first < series.size:
                pairs = PAIR_CELLS * series[first - lag : -lag] + series[first:]
                self.lagged[place] += np.bincount(pairs, minlength=PAIR_CELLS**2).reshape(PAIR_CELLS, PAIR_CELLS)
        self._series = series[-max(LAGS) :]

    @property
    def _cell_counts(self) -> IntArray:
        """Draws of each group, shape (groups,)."""
        counts = np.zeros(self.law.size, dtype=np.int64)
        np.add.at(counts, self.cells, self.tokens)
        return counts

    def against_law(self) -> float:
        """Log evidence that the law of the draws is not p: by its tokens, and by more hits than there can be."""
        if self.tokens[self.p == 0].any():
            return math.inf
        by_tokens = log_evidence(self._cell_counts, self.law)
        if self.grouped:  # a bias may move mass within groups only
            by_tokens = mean_of(by_tokens, log_evidence(self.firsts, self.p))
        if self.optimum is None:
            return by_tokens
        return mean_of(by_tokens, log_excess(self.hits, self.draws, self.optimum))

    def against_independence(self) -> float:
        """Log evidence that outputs are not independent draws from p: half of the bets on neighbours, half on lags."""
        neighbours = log_dependence(np.stack((self.within, self.across)), self.pair_law)
        lagged = log_dependence(self.lagged, self.pair_law)
        return mean_of(mean_of(*neighbours), mean_of(*lagged))

    def measure(self, miss: float) -> Measured:
        """Look at the draws so far; the intervals hold at all looks together, but with probability `miss`."""
        miss = at_look(miss, self.looks)
        self.looks += 1
        tv = _tv(self._cell_counts, self.law)
        # Half of what may miss is for the hits; the other half is shared by groups and single tokens.
        share = miss / 4 if self.grouped else miss / 2
        radius = tv_radius(self.draws, self.law.size, share)
        tv_tokens = _tv(self.tokens, self.p) + tv_radius(self.draws, self.p.size, share)
        return Measured(
            tv,
            (max(tv - radius, 0.0), min(tv + radius, 1.0)),
            self.hits / self.draws,
            rate_radius(self.draws, miss / 2),
            min(tv_tokens, 1.0),
        )


def _tv(counts: IntArray, law: FloatArray) -> float:
    """Total variation of the shares of the draws to a law."""
    return float(np.abs(counts / counts.sum() - law).sum()) / 2
