"""Drawing texts of two consecutive tokens from a rule for one position."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from otspec.auditing.answers import Invalid
from otspec.auditing.calling import start
from otspec.auditing.positions.cases import Drafter, PositionCase
from otspec.auditing.positions.rules import BatchedRule, Rule
from otspec.auditing.subject import TEXT
from otspec.laws import IntArray

MAX_NUMBERS = 1 << 20
"""Probabilities that one batched call is handed."""


class Texts(NamedTuple):
    """Texts of one instance, all tokens verified at the same (p, q)."""

    drafts: IntArray
    """Shape (texts, 2, n)."""
    tokens: IntArray
    """Shape (texts, 2)."""
    accepted: IntArray | None
    """Shape (texts, 2): the accepted draft or -1; None if the rule does not say."""


class OneByOne:
    """Calls the rule for one tuple of drafts after the other."""

    simultaneous = False

    def __init__(self, rule: Rule, drafter: Drafter | None, rng: np.random.Generator) -> None:
        self._rule = rule
        self._source = _Source(drafter, rng.spawn(1)[0])
        self._rng = rng

    def draw(self, cases: Sequence[PositionCase], texts: int) -> list[Texts]:
        """So many texts of each case; see `otspec.auditing.subject.Sampler`."""
        with np.errstate(all="ignore"):
            return [self._texts(case, texts) for case in cases]

    def _texts(self, case: PositionCase, texts: int) -> Texts:
        drafts = self._source.ahead(case, texts)
        tokens, accepted = (np.empty((texts, TEXT), dtype=np.int64) for _ in range(2))
        says = True
        for text in range(texts):
            self._source.start()
            self._rule.start(self._rng)
            for step in range(TEXT):
                self._source.fill(case, drafts[text, step])
                answer = self._rule.sample(case, drafts[text, step], self._rng)
                tokens[text, step] = answer.token
                if answer.accepted is None:
                    says = False
                else:
                    accepted[text, step] = answer.accepted
        return Texts(drafts, tokens, accepted if says else None)


class InBatches:
    """Calls the rule for many rows at a time; instances over the same vocabulary take turns in a batch."""

    simultaneous = True

    def __init__(self, rule: BatchedRule, drafter: Drafter | None, rng: np.random.Generator) -> None:
        self._rule = rule
        self._source = _Source(drafter, rng.spawn(1)[0])
        self._rng = rng

    def draw(self, cases: Sequence[PositionCase], texts: int) -> list[Texts]:
        """So many texts of each case; see `otspec.auditing.subject.Sampler`."""
        alike: dict[int, list[int]] = {}
        for place, case in enumerate(cases):
            alike.setdefault(case.vocab, []).append(place)
        found: dict[int, Texts] = {}
        for places in alike.values():
            found |= zip(places, self._together([cases[place] for place in places], texts), strict=True)
        return [found[place] for place in range(len(cases))]

    def _together(self, cases: list[PositionCase], texts: int) -> list[Texts]:
        drafts = np.stack([self._source.ahead(case, texts) for case in cases], axis=1)
        tokens, accepted = (np.empty((texts, len(cases), TEXT), dtype=np.int64) for _ in range(2))
        says = True
        most = max(1, MAX_NUMBERS // (len(cases) * cases[0].vocab))
        for first in range(0, texts, most):
            part = slice(first, min(first + most, texts))
            owner = np.tile(np.arange(len(cases)), part.stop - part.start)
            self._source.start()
            self._rule.start(self._rng)
            for step in range(TEXT):
                rows = drafts[part, :, step].reshape(owner.size, -1)
                for place, row in zip(owner, rows, strict=True):
                    self._source.fill(cases[place], row)
                drafts[part, :, step] = rows.reshape(-1, len(cases), rows.shape[1])
                drawn, said = self._rule.sample_rows(cases, owner, rows, self._rng)
                tokens[part, :, step] = drawn.reshape(-1, len(cases))
                if said is None:
                    says = False
                else:
                    accepted[part, :, step] = said.reshape(-1, len(cases))
        return [
            Texts(drafts[:, place], tokens[:, place], accepted[:, place] if says else None)
            for place in range(len(cases))
        ]


class _Source:
    """The source of the drafts: the scheme of a case, or a drafter of the user's."""

    def __init__(self, drafter: Drafter | None, rng: np.random.Generator) -> None:
        self._drafter = drafter
        self._rng = rng

    def start(self) -> None:
        """Begin a new text."""
        start(self._drafter, self._rng)

    def ahead(self, case: PositionCase, texts: int) -> IntArray:
        """Drafts of so many texts, shape (texts, 2, n); those of a drafter of the user's are yet to be filled in."""
        if case.drafted is None:
            return np.zeros((texts, TEXT, case.n), dtype=np.int64)
        return case.drafted.sample(self._rng, texts * TEXT).reshape(texts, TEXT, case.n)

    def fill(self, case: PositionCase, out: IntArray) -> None:
        """Call the user's drafter, where there is one.

        Raises
        ------
        Invalid
            If what it returns is not a tuple of drafts.
        """
        if self._drafter is None:
            return
        try:
            answer: Any = self._drafter(case.q.copy(), case.n, self._rng)
        except Exception as error:
            raise Invalid(f"the drafter raises {type(error).__name__}: {error}", None, case) from error
        drafts = np.asarray(answer)
        if drafts.shape != (case.n,) or not np.issubdtype(drafts.dtype, np.integer):
            raise Invalid(f"the drafter returns {answer!r}; drafts are {case.n} token ids", None, case)
        if drafts.min() < 0 or drafts.max() >= case.vocab:
            raise Invalid(
                f"the drafter returns {drafts.tolist()}; token ids run from 0 to {case.vocab - 1}", None, case
            )
        out[:] = drafts
