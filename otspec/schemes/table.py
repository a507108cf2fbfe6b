"""Draft laws that are known by the list of their tuples: the base of such schemes, and any law as a table."""

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
    distinct,
    draw_from_cumulative,
    sum_by,
)
from otspec.schemes.draft_sets import DraftSets
from otspec.schemes.protocol import DraftScheme, Support


class Enumerated(DraftScheme):
    """A draft law that is known by the list of its tuples, `support`, from which the other methods follow.

    The base of `Table`, and of a scheme of your own that has no more tuples than can be listed: set
    `n` and `vocab`, and write `support`.

    Examples
    --------
    >>> import numpy as np
    >>> import otspec
    >>> from otspec.schemes import Enumerated, Support
    >>> class Twins(Enumerated):
    ...     n = 2
    ...     def __init__(self, q):
    ...         self.q, self.vocab = np.asarray(q), len(q)
    ...     def support(self):
    ...         return Support.of(np.arange(self.vocab)[:, None].repeat(2, axis=1), self.q)
    >>> twins = Twins([0.2, 0.3, 0.5])  # one token is drawn, and drafted twice
    >>> print(twins.prob([2, 2]), twins.prob([0, 1]), twins.inclusion())
    0.5 0.0 [0.2 0.3 0.5]
    >>> bool(otspec.check_scheme(twins))
    True
    """

    @cached_property
    def _listed(self) -> Support:
        return self.support()

    @cached_property
    def _row(self) -> dict[tuple[int, ...], int]:
        return {tuple(row): number for number, row in enumerate(self._listed.drafts.tolist())}

    @cached_property
    def _cumulative(self) -> FloatArray:
        return np.cumsum(self._listed.probabilities)

    @cached_property
    def _tokens(self) -> IntArray:
        return distinct(self._listed.drafts)

    @cached_property
    def _sets(self) -> DraftSets:
        return DraftSets.of_support(*self._listed)

    def sample(self, rng: Seed, size: int | None = None) -> IntArray:
        rng = as_generator(rng)
        rows: Any = draw_from_cumulative(self._cumulative, rng, size)
        return self._listed.drafts[rows]

    def prob(self, drafts: IntArray) -> FloatArray:
        tuples = as_drafts(drafts, self.n, self.vocab)
        rows = [self._row.get(tuple(row)) for row in tuples.reshape(-1, self.n).tolist()]
        values = [0.0 if row is None else self._listed.probabilities[row] for row in rows]
        return np.reshape(np.array(values), tuples.shape[:-1])

    def hit_chain(self, order: IntArray) -> FloatArray:
        return self._listed.hit_chain(order)

    def priority_law(self, order: IntArray) -> FloatArray:
        return self._listed.priority_law(order)

    def reachable(self) -> IntArray:
        return self._tokens

    def compact(self) -> Table:
        tokens = self.reachable()
        drafts, probabilities = self._listed
        return Table(np.searchsorted(tokens, drafts), probabilities, tokens.size + 1)

    def support_size(self) -> int:
        return self._listed.probabilities.size

    def draft_sets(self) -> DraftSets:
        return self._sets

    def first_draft(self) -> FloatArray:
        drafts, probabilities = self._listed
        return sum_by(drafts[:, 0], probabilities, self.vocab)

    def inclusion(self) -> FloatArray:
        sets = self.draft_sets()
        return sum_by(sets.cells, sets.mass[sets.owner], self.vocab)


@dataclass(frozen=True, eq=False, init=False, repr=False)
class Table(Enumerated):
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

    def support(self) -> Support:
        return Support.of(self.drafts, self.probabilities)
