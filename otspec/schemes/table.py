"""Any draft law, as an explicit table of tuples."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from otspec.errors import ProblemError
from otspec.laws import (
    ArrayLike,
    FloatArray,
    IntArray,
    Seed,
    as_count,
    as_drafts,
    as_generator,
    as_law,
    draw_from_cumulative,
    sum_by,
)
from otspec.schemes.draft_sets import DraftSets
from otspec.schemes.protocol import DraftScheme, Support


@dataclass(frozen=True, eq=False, init=False, repr=False)
class Table(DraftScheme):
    """Drafts drawn from a table of tuples: any correlated law, a recorded one, or a counterexample.

    Parameters
    ----------
    drafts : array_like of int, shape (m, n)
        Distinct ordered tuples of token ids.
    probabilities : array_like, shape (m,)
        Their law, checked and scaled as in `otspec.laws.as_law`.
    vocab : int
        Number of tokens V.

    Raises
    ------
    ProblemError
        If a token is out of range, a tuple appears twice, the lengths differ, or the probabilities are not a law.

    Examples
    --------
    >>> import otspec
    >>> scheme = otspec.Table([[0, 1], [2, 2]], [0.25, 0.75], vocab=3)  # two tuples of drafts, and how likely each is
    >>> print(f"{scheme.prob([2, 2]):.2f} {scheme.prob([1, 0]):.2f}")
    0.75 0.00
    """

    drafts: IntArray
    probabilities: FloatArray
    vocab: int
    n: int

    def __init__(self, drafts: ArrayLike, probabilities: ArrayLike, vocab: int) -> None:
        vocab = as_count("vocab", vocab)
        try:
            shape = np.shape(drafts)
        except ValueError as error:
            raise ProblemError(f"drafts are ragged; every tuple has the same number of tokens ({error})") from error
        if len(shape) != 2 or 0 in shape:
            raise ProblemError(
                f"drafts have shape {shape}; a table of m tuples of n tokens has shape (m, n), m, n >= 1"
            )
        tuples, law = as_drafts(drafts, shape[1], vocab), as_law("probabilities", probabilities)
        if len(tuples) != law.size:
            raise ProblemError(f"{len(tuples)} tuples of drafts have {law.size} probabilities; give one each")
        order = np.lexsort(tuples.T[::-1])
        repeats = (np.diff(tuples[order], axis=0) == 0).all(axis=1)
        if repeats.any():
            repeated = tuples[order][int(repeats.argmax())].tolist()
            raise ProblemError(f"the tuple {repeated} appears twice in the table; add its probabilities up")
        tuples.flags.writeable = False
        object.__setattr__(self, "drafts", tuples)
        object.__setattr__(self, "probabilities", law)
        object.__setattr__(self, "vocab", vocab)
        object.__setattr__(self, "n", shape[1])

    @cached_property
    def _row(self) -> dict[tuple[int, ...], int]:
        return {tuple(row): number for number, row in enumerate(self.drafts.tolist())}

    @cached_property
    def _cumulative(self) -> FloatArray:
        return np.cumsum(self.probabilities)

    @cached_property
    def _sets(self) -> DraftSets:
        return DraftSets.of_support(*self.support())

    def sample(self, rng: Seed, size: int | None = None) -> IntArray:
        rng = as_generator(rng)
        rows: Any = draw_from_cumulative(self._cumulative, rng, size)
        return self.drafts[rows]

    def prob(self, drafts: IntArray) -> FloatArray:
        tuples = as_drafts(drafts, self.n, self.vocab)
        rows = [self._row.get(tuple(row)) for row in tuples.reshape(-1, self.n).tolist()]
        values = [0.0 if row is None else self.probabilities[row] for row in rows]
        return np.reshape(np.array(values), tuples.shape[:-1])

    def hit_chain(self, order: IntArray) -> FloatArray:
        return Support(self.drafts, self.probabilities).hit_chain(order)

    def priority_law(self, order: IntArray) -> FloatArray:
        return Support(self.drafts, self.probabilities).priority_law(order)

    def reachable(self) -> IntArray:
        return np.unique(self.drafts[self.probabilities > 0])

    def compact(self) -> Table:
        tokens = self.reachable()
        drafts, probabilities = self.support()
        return Table(np.searchsorted(tokens, drafts), probabilities, tokens.size + 1)

    def support_size(self) -> int:
        return int(np.count_nonzero(self.probabilities))

    def support(self) -> Support:
        occurs = self.probabilities > 0
        return Support(self.drafts[occurs], self.probabilities[occurs])

    def draft_sets(self) -> DraftSets:
        return self._sets

    def first_draft(self) -> FloatArray:
        return sum_by(self.drafts[:, 0], self.probabilities, self.vocab)

    def inclusion(self) -> FloatArray:
        return sum_by(self._sets.cells, self._sets.mass[self._sets.owner], self.vocab)
