"""What was drawn on one instance, and what it says."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from otspec.auditing.cases import Case
from otspec.auditing.evidence import (
    at_look,
    log_dependence,
    log_evidence,
    log_excess,
    mean_of,
    rate_radius,
    tv_radius,
)
from otspec.auditing.optima import optimum_iid, optimum_of
from otspec.auditing.report import Figures
from otspec.auditing.sampling import Texts
from otspec.errors import ProblemError
from otspec.laws import FloatArray, IntArray, falling_ratio, likeliest, sum_by

MAX_CELLS = 32
"""A larger vocabulary is grouped: the likeliest tokens alone, all others by p/q."""

ALONE, GROUPS = 16, 12
"""How many tokens of a larger vocabulary stand alone, and how many groups of about equal p the others form."""

PAIR_CELLS = 8
"""Pairs of tokens are told apart by the likeliest tokens only."""

LAGS = (*range(2, 17), 24, 32, 48, 64, 128, 256, 512, 1024)
"""Tokens of one instance so many draws apart are paired, besides neighbours: noise may come back later."""

MAX_TUPLES = 1024
"""Drafts of a drafter are compared with the declared law tuple by tuple up to so many, else by their first."""


def cells_of(p: FloatArray, q: FloatArray) -> IntArray:
    """The group of each token, shape (V,): tokens of p = 0 apart from all others."""
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


@dataclass(eq=False)
class Tally:
    """What has been drawn on one instance."""

    case: Case
    simultaneous: bool
    tokens: IntArray = field(init=False)
    """Draws of each token, shape (V,)."""
    firsts: IntArray = field(init=False)
    """The same of first tokens of texts, which are independent even where the second repeats the noise of the first."""
    within: IntArray = field(init=False)
    """Pairs of tokens of one text."""
    across: IntArray = field(init=False)
    """Pairs of neighbouring texts: the last token of one and the first of the next, or first tokens in one batch."""
    lagged: IntArray = field(init=False)
    """Pairs of tokens that were drawn `LAGS` after one another, shape (lags, cells, cells)."""
    tuples: IntArray = field(init=False)
    """First steps of texts by declared tuple of drafts, or by first draft; the last entry counts all others."""
    figures: Figures | None = None
    """As of the last look."""
    hits: int = 0
    accepted: int | None = 0
    draws: int = 0
    looks: int = 0
    _series: IntArray = field(init=False)
    """Coarse groups of the last tokens, in the order of the draws."""

    def __post_init__(self) -> None:
        self.tokens, self.firsts = (np.zeros(self.case.vocab, dtype=np.int64) for _ in range(2))
        self.within, self.across = (np.zeros((self.pair_law.size,) * 2, dtype=np.int64) for _ in range(2))
        self.lagged = np.zeros((len(LAGS), *self.within.shape), dtype=np.int64)
        self._series = np.empty(0, dtype=np.int64)
        self.tuples = np.zeros(self.draft_law.size, dtype=np.int64)

    @cached_property
    def cells(self) -> IntArray:
        """Group of each token."""
        return cells_of(self.case.p, self.case.q)

    @property
    def grouped(self) -> bool:
        """Whether some group has several tokens."""
        return self.law.size < self.case.vocab

    @cached_property
    def law(self) -> FloatArray:
        """Target law of the groups."""
        return sum_by(self.cells, self.case.p, int(self.cells.max()) + 1)

    @cached_property
    def pair_cells(self) -> IntArray:
        """Coarser groups, of which pairs are counted."""
        named = likeliest(self.case.p, min(PAIR_CELLS - 1, self.case.vocab))
        cells = np.full(self.case.vocab, named.size)
        cells[named] = np.arange(named.size)
        return cells

    @cached_property
    def pair_law(self) -> FloatArray:
        """Target law of the coarser groups."""
        return sum_by(self.pair_cells, self.case.p, PAIR_CELLS)

    @cached_property
    def optimum(self) -> float | None:
        """alpha* of the drafts."""
        return optimum_of(self.case)

    @cached_property
    def optimum_iid(self) -> float | None:
        """alpha* of i.i.d. drafts."""
        return optimum_iid(self.case)

    @cached_property
    def _by_tuple(self) -> dict[tuple[int, ...], int] | None:
        """Row of each declared tuple, if they are few."""
        if self.case.declared.support_size() > MAX_TUPLES:
            return None
        return {tuple(row): place for place, row in enumerate(self.case.declared.support().drafts.tolist())}

    @cached_property
    def draft_law(self) -> FloatArray:
        """Declared law of what `tuples` counts."""
        if self._by_tuple is not None:
            law = self.case.declared.support().probabilities
        else:
            first = self.case.declared.first_draft()
            if first is None:
                raise ProblemError(
                    f"the declared {type(self.case.declared).__name__} has more than {MAX_TUPLES} tuples and does not "
                    "know the law of its first draft, so a drafter cannot be compared with it; take fewer tokens"
                )
            law = first
        return np.append(law / law.sum(), 0.0)

    def add(self, texts: Texts) -> None:
        """Count more draws."""
        drafts, tokens, accepted = texts
        self.draws += tokens.size
        self.tokens += np.bincount(tokens.ravel(), minlength=self.tokens.size)
        self.firsts += np.bincount(tokens[:, 0], minlength=self.tokens.size)
        self.hits += int((drafts == tokens[..., None]).any(axis=-1).sum())
        if accepted is None or self.accepted is None:
            self.accepted = None
        else:
            self.accepted += int((accepted >= 0).sum())
        pairs = self.pair_cells[tokens]
        np.add.at(self.within, (pairs[:, 0], pairs[:, 1]), 1)
        np.add.at(self.across, (pairs[:-1, 0 if self.simultaneous else 1], pairs[1:, 0]), 1)
        self._add_lagged(pairs.T.ravel() if self.simultaneous else pairs.ravel())
        if self.case.drafted is None:
            rows = drafts[:, 0].tolist()  # drafts that depend on those before are the pair test's business
            by_tuple, other = self._by_tuple, self.tuples.size - 1
            found = [row[0] if by_tuple is None else by_tuple.get(tuple(row), other) for row in rows]
            self.tuples += np.bincount(found, minlength=self.tuples.size)

    def _add_lagged(self, more: IntArray) -> None:
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
        """Draws of each group."""
        counts = np.zeros(self.law.size, dtype=np.int64)
        np.add.at(counts, self.cells, self.tokens)
        return counts

    def against_law(self) -> float:
        """Log evidence that the output law is not p: by its tokens, and by acceptance above alpha*."""
        if self.tokens[self.case.p == 0].any():
            return math.inf
        by_tokens = log_evidence(self._cell_counts, self.law)
        if self.grouped:  # a bias may move mass within groups only
            by_tokens = mean_of(by_tokens, log_evidence(self.firsts, self.case.p))
        if self.optimum is None:
            return by_tokens
        return mean_of(by_tokens, log_excess(self.hits, self.draws, self.optimum))

    def against_independence(self) -> float:
        """Log evidence that outputs are not independent draws from p: half of the bets on neighbours, half on lags."""
        neighbours = log_dependence(np.stack((self.within, self.across)), self.pair_law)
        lagged = log_dependence(self.lagged, self.pair_law)
        return mean_of(mean_of(*neighbours), mean_of(*lagged))

    def against_drafts(self) -> float:
        """Log evidence that the drafts do not come from the declared law."""
        return log_evidence(self.tuples, self.draft_law)

    def look(self, miss: float) -> None:
        """Bring the figures up to date; their intervals hold at all looks together, but with probability `miss`."""
        miss = at_look(miss, self.looks)
        self.looks += 1
        case = self.case
        tv = _tv(self._cell_counts, self.law)
        # Half of what may miss is for the acceptance; the other half is shared by groups and single tokens.
        share = miss / 4 if self.grouped else miss / 2
        radius = tv_radius(self.draws, self.law.size, share)
        tv_tokens = _tv(self.tokens, case.p) + tv_radius(self.draws, case.vocab, share)
        self.figures = Figures(
            name=case.name,
            vocab=case.vocab,
            draws=self.draws,
            tv=tv,
            tv_interval=(max(tv - radius, 0.0), min(tv + radius, 1.0)),
            membership=self.hits / self.draws,
            membership_error=rate_radius(self.draws, miss / 2),
            step_acceptance=None if self.accepted is None else self.accepted / self.draws,
            optimum=self.optimum,
            optimum_iid=self.optimum_iid,
            grouped=self.grouped,
            tv_tokens=min(tv_tokens, 1.0),
            drafts_tv=None,
        )


def _tv(counts: IntArray, law: FloatArray) -> float:
    """Total variation of the shares of the draws to a law."""
    return float(np.abs(counts / counts.sum() - law).sum()) / 2
