"""The draws on one case, counted, and the evidence that they are not independent draws from p, or hit too often."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from otspec.auditing.evidence import at_look, log_dependence, log_evidence, log_excess, mean_of, rate_radius, tv_radius
from otspec.auditing.outcome import Figures
from otspec.auditing.rules.case import Case, Sample
from otspec.laws import FloatArray, IntArray, falling_ratio, likeliest, sum_by

MAX_CELLS = 32
"""A larger vocabulary is grouped: the likeliest tokens stand alone, all others are grouped by p/q."""

ALONE, GROUPS = 16, 12
"""How many tokens of a larger vocabulary stand alone, and how many groups of about equal p the others form."""

PAIR_CELLS = 8
"""Pairs of tokens are counted in this many cells: the likeliest tokens, and one for all others."""

LAGS = (*range(2, 17), 24, 32, 48, 64, 128, 256, 512, 1024)
"""Tokens of one instance this many draws apart are paired, besides neighbours: noise may come back later."""


def cells_of(p: FloatArray, q: FloatArray) -> IntArray:
    """The group of each token, shape (V,), of laws p and q of shape (V,).

    Tokens of p = 0 are apart from all others.
    """
    if p.size <= MAX_CELLS:
        return np.arange(p.size)
    cells = np.zeros(p.size, dtype=np.int64)
    alone = np.union1d(likeliest(p, ALONE // 2), likeliest(q, ALONE // 2))
    order = falling_ratio(p, q)
    order = order[~np.isin(order, alone) & (p[order] > 0)]
    if order.size:
        below = np.cumsum(p[order])
        cells[order] = 1 + np.minimum((GROUPS * below / below[-1]).astype(np.int64), GROUPS - 1)
    cells[alone] = 1 + GROUPS + np.arange(alone.size)
    return np.unique(cells, return_inverse=True)[1].astype(np.int64)


class Tally:
    """The draws on one case, counted, and the evidence in them; `simultaneous` ones are of one batch, step by step."""

    def __init__(self, case: Case, simultaneous: bool) -> None:
        self.case, self.p = case, case.p
        self.simultaneous = simultaneous
        self.draws = 0
        """Outputs that were drawn."""
        self.accepted = np.zeros(case.length + 1, dtype=np.int64)
        """Draws that put out 0, 1, ... drafted tokens."""
        self.reported: int | None = 0
        self.looks = 0
        """How many looks were taken."""
        self.reach = np.inf
        """Upper end of the interval of the total variation, which may be above 1."""
        self.figures: Figures | None = None
        """The figures as of the last look."""
        self.tokens, self.firsts = (np.zeros(self.p.size, dtype=np.int64) for _ in range(2))
        """Draws of each output, shape (V,); those that begin a text, which are independent even where the second
        repeats the noise of the first."""
        self.passed = np.zeros(case.after[0].shape, dtype=np.int64)
        """How often what was put out has each token after each prefix, shape (prefixes, V)."""
        self.within, self.across = (np.zeros((self.pair_law.size,) * 2, dtype=np.int64) for _ in range(2))
        """Pairs of outputs of one text, shape (cells, cells); pairs of neighbouring texts: the last of one and the
        first of the next, or the first ones in one batch."""
        self.lagged = np.zeros((len(LAGS), *self.within.shape), dtype=np.int64)
        """Pairs of outputs that were drawn `LAGS` after one another, shape (lags, cells, cells)."""
        self._series = np.empty(0, dtype=np.int64)
        """Coarse groups of the last outputs, in the order of the draws, shape (count,)."""
        law = case.declared_law
        self.drafts = None if law is None else np.zeros(law.size, dtype=np.int64)
        """Drafts of first steps, by their place in `Case.declared_law`."""

    @cached_property
    def cells(self) -> IntArray:
        """Group of each token or text, shape (V,)."""
        drafted, first = np.ones(1), 0
        while first < len(self.passed):  # level by level
            first, below = first + drafted.size, self.case.after[1][first : first + drafted.size]
            drafted = (drafted[:, None] * below).ravel()
        return cells_of(self.p, drafted)

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

    def add(self, sample: Sample) -> None:
        """Count more draws."""
        tokens = sample.outputs
        self.draws += tokens.size
        self.tokens += np.bincount(tokens.ravel(), minlength=self.p.size)
        self.firsts += np.bincount(tokens[:, 0], minlength=self.p.size)
        self.passed += np.bincount(tokens.ravel(), minlength=self.p.size) if sample.passed is None else sample.passed
        self.accepted += sample.accepted
        self.reported = None if self.reported is None or sample.reported is None else self.reported + sample.reported
        if self.drafts is not None and sample.drafts is not None:
            self.drafts += np.bincount(sample.drafts, minlength=self.drafts.size)
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
        return np.bincount(self.cells, self.tokens, self.law.size).astype(np.int64)

    def against_law(self) -> float:
        """Log evidence that the law of the draws is not p: by its tokens, and by more acceptance than there can be.

        Infinite once a token of p = 0 is drawn, which no group shares with others.
        """
        if self.grouped and len(self.passed) == 1:  # a bias may move mass within groups only
            by_tokens = mean_of(log_evidence(self._cell_counts, self.law), log_evidence(self.firsts, self.p))
        else:
            by_tokens = log_evidence(self.passed, self.case.after[0])
        if self.case.optimum is None:
            return by_tokens
        return mean_of(by_tokens, log_excess(self.accepted, self.case.optimum))

    def against_independence(self) -> float:
        """Log evidence that outputs are not independent draws from p: half of the bets on neighbours, half on lags."""
        neighbours = log_dependence(np.stack((self.within, self.across)), self.pair_law)
        lagged = log_dependence(self.lagged, self.pair_law)
        return mean_of(mean_of(*neighbours), mean_of(*lagged))

    def against_drafts(self) -> float:
        """Log evidence that the drafts do not have their declared law: none where the audit draws them itself."""
        law = self.case.declared_law
        return 0.0 if law is None or self.drafts is None else log_evidence(self.drafts, law)

    def update(self, miss: float) -> None:
        """Bring the figures up to date; their intervals hold at all looks together, but with probability `miss`."""
        miss = at_look(miss, self.looks)
        self.looks += 1
        tv = _tv(self._cell_counts, self.law)
        # Half of what may miss is for the hits; the other half is shared by groups and single tokens.
        share = miss / 4 if self.grouped else miss / 2
        radius = tv_radius(self.draws, self.law.size, share)
        self.reach = tv + radius
        measured = {
            "draws": self.draws,
            "tv": tv,
            "tv_interval": (max(tv - radius, 0.0), min(tv + radius, 1.0)),
            "membership": float(self.accepted @ np.linspace(0.0, 1.0, self.accepted.size)) / self.draws,
            "membership_error": rate_radius(self.draws, miss / 2),
            "step_acceptance": None if self.reported is None else self.reported / self.draws,
            "grouped": self.grouped,
            "tv_tokens": min(_tv(self.tokens, self.p) + tv_radius(self.draws, self.p.size, share), 1.0),
        }
        self.figures = self.case.figures(measured)


def _tv(counts: IntArray, law: FloatArray) -> float:
    """Total variation of the shares of the draws to a law."""
    return float(np.abs(counts / counts.sum() - law).sum()) / 2
