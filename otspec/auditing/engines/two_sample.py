"""Texts with drafts judged by texts without, where no law is known.

Text number i without drafts makes a pair with text number i with drafts.  If both have one law, then given the two
texts of a pair a fair coin decides which is which.  A bet on the coin, at odds that only earlier pairs decide, is a
test martingale [ramdas2023game].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from otspec.auditing.engines import bounds
from otspec.auditing.engines.engine import Beginnings, Sampling, Text, without_ids
from otspec.auditing.engines.judge import INDEPENDENCE, LAW, Batch, Judge, PromptCell
from otspec.auditing.engines.report import Control, Place
from otspec.auditing.engines.settings import EngineAuditSettings
from otspec.auditing.evidence import log_average_and_product
from otspec.auditing.outcome import Test
from otspec.errors import ProblemError
from otspec.laws import FloatArray

SMOOTHINGS = 4.0 ** np.arange(1, 6)
"""How many texts the law of both kinds together counts for in the law of one kind; a bettor each."""

OVER = None
"""What follows the last token of a text that is shorter than others."""

CHARACTERS = 4
"""Characters that stand for a token, where the engine tells none."""

COOLER = 0.7
"""Of the temperature, at which the plain engine is the control."""

PLAIN_COOLER = Control(f"the plain engine at {COOLER:g} of the temperature", None, None)
"""The control where an engine is at hand."""


class Pairs:
    """Bets on pairs of texts of one prompt and sampling, by so many of their first tokens; a bettor a cut."""

    def __init__(self, cuts: Sequence[int]) -> None:
        self.cuts = tuple(cuts)
        self._wealth: FloatArray = np.zeros((len(self.cuts), SMOOTHINGS.size))
        self._beginnings = Beginnings()
        self._seen: dict[int, list[int]] = {}
        self._children: dict[int, int] = {}

    def add(self, plain: Sequence[object], drafted: Sequence[object]) -> tuple[list[int], list[int]]:
        """Bet on a pair, which of its texts is the drafted one; then learn from it.  Numbers of their beginnings."""
        first, second = (self._beginnings.along(self._closed(text)) for text in (plain, drafted))
        odds = self._log_odds(first) - self._log_odds(second)
        self._wealth += np.log(2.0) - np.logaddexp(0.0, -odds)
        for kind, text in enumerate((first, second)):
            for end, node in enumerate(text):
                counts = self._seen.setdefault(node, [0, 0])
                if end and sum(counts) == 0:
                    self._children[text[end - 1]] = self._children.get(text[end - 1], 0) + 1
                counts[kind] += 1
        return first, second

    def evidence(self) -> FloatArray:
        """Log e-values by cut, shape (cuts,)."""
        found: FloatArray = np.logaddexp.reduce(self._wealth, axis=1) - np.log(SMOOTHINGS.size)
        return found

    def _closed(self, text: Sequence[object]) -> tuple[object, ...]:
        longest = self.cuts[-1]
        return (*text[:longest], *(OVER,) * (longest - len(text)))

    def _log_odds(self, text: Sequence[int]) -> FloatArray:
        """Log of the chance of a beginning without drafts over that with drafts, shape (cuts, SMOOTHINGS)."""
        steps = np.zeros((len(text) - 1, SMOOTHINGS.size))
        seen: list[tuple[Sequence[int], Sequence[int], float]] = []
        for before, after in pairwise(text):
            node, child = self._seen.get(before, (0, 0)), self._seen.get(after, (0, 0))
            if not any(node):
                break
            both = (sum(child) + 0.5) / (sum(node) + 0.5 * (1 + self._children.get(before, 0)))
            seen.append((node, child, both))
        if seen:
            nodes, children, shares = (np.array(one, dtype=np.float64) for one in zip(*seen, strict=True))
            rates = (children[..., None] + SMOOTHINGS * shares[:, None, None]) / (nodes[..., None] + SMOOTHINGS)
            steps[: len(seen)] = -np.diff(np.log(rates), axis=1)[:, 0]
        return np.cumsum(steps, axis=0)[[cut - 1 for cut in self.cuts]]


class TwoSampleTest(Judge):
    """Compares texts with drafts with as many without, cut after each position.

    `control` is the biased rule, where it is not the plain engine at a lower temperature.
    """

    compared_with = "text without drafts"

    def __init__(
        self,
        cells: Sequence[PromptCell],
        settings: EngineAuditSettings,
        ends: frozenset[int] | None = None,
        control: Control | None = None,
    ) -> None:
        super().__init__(cells, settings, ends)
        self._cuts: range | None = None
        self._rule, self._by_tokens = control or PLAIN_COOLER, True
        self._pairs: list[Pairs] = []
        self._control: list[Pairs] = []
        self._texts: list[tuple[list[list[int]], list[list[int]]]] = [([], []) for _ in cells]
        self._lengths: list[list[int]] = [[] for _ in cells]

    def control_sampling(self, sampling: Sampling) -> Sampling | None:
        """The same at a lower temperature, until the control is caught."""
        return replace(sampling, temperature=COOLER * sampling.temperature) if self.caught is None else None

    def compare(self, cell: PromptCell, batch: Batch) -> None:
        """Bet on pairs of texts, and on pairs with the control's."""
        self._begin(batch)
        self.logprobs.add(cell.number, batch.plain, drafts=False)
        self.logprobs.add(cell.number, batch.drafted, drafts=True)
        plain, drafted, control = (
            [self._symbols(text) for text in texts] for texts in (batch.plain, batch.drafted, batch.control)
        )
        for one, other in zip(plain, drafted, strict=True):
            for texts, numbers in zip(self._texts[cell.number], self._pairs[cell.number].add(one, other), strict=True):
                texts.append(numbers)
        for one, other in zip(plain, control, strict=False):
            self._control[cell.number].add(one, other)
        self.coincidences[cell.number].add(drafted)
        self._lengths[cell.number].extend(map(len, drafted))

    def update(self) -> tuple[Test, ...]:
        """The tests as of now; the control is looked at, too."""
        if self.caught is None and _together(self._control) >= self.threshold:
            self.caught = self.texts
        law = [_over_cuts(one) for one in self._pairs]
        alone = [one.evidence() for one in self.coincidences]
        worst, most = self.cells[int(np.argmax(law))], self.cells[int(np.argmax(alone))]
        return (
            self.test(LAW, "text with drafts has the law of text without", _together(self._pairs), str(worst)),
            self.test(INDEPENDENCE, "requests are independent", self.dependence(), str(most)),
        )

    def places(self, miss: float) -> tuple[Place, ...]:
        """Figures by position, whose bounds hold together but with probability `miss`."""
        cuts = self._cuts or range(1, 2)
        groups = self.by_sampling()
        each, found = miss / (2 * len(groups) * len(cuts)), []
        for sampling, mine in groups.items():
            evidence = np.array([self._pairs[cell.number].evidence() for cell in mine])
            for place, cut in enumerate(cuts):
                plain, drafted = (
                    [(cell.number, text[cut]) for cell in mine for text in self._texts[cell.number][kind]]
                    for kind in (0, 1)
                )
                reached = sum(length >= cut for cell in mine for length in self._lengths[cell.number])
                bound = bounds.lower_pairs(plain, drafted, each), bounds.upper_pairs(plain, drafted, each)
                together, most = log_average_and_product(evidence[:, place]), mine[int(evidence[:, place].argmax())]
                found.append(Place(str(sampling), cut, reached, together, *bound, most.prompt))
        return tuple(found)

    @property
    def control(self) -> Control:
        """What became of the biased rule."""
        return replace(self._rule, caught=self.caught)

    def doubt(self) -> None:
        """None: nothing is taken for known."""

    def _begin(self, batch: Batch) -> None:
        """Decide at the first batch whether tokens or characters are compared."""
        if self._cuts is not None:
            return
        sides = (batch.plain, batch.drafted)
        self._by_tokens = any(one.tokens for side in sides for one in side) and not any(map(without_ids, sides))
        alone = (any(one.tokens for one in side) and not any(one.text for one in side) for side in sides)
        if not self._by_tokens and any(alone):
            raise ProblemError("some texts are tokens alone, and some characters alone; tell all in one way")
        self._cuts = range(1, self.settings.length * (1 if self._by_tokens else CHARACTERS) + 1)
        self._pairs, self._control = ([Pairs(self._cuts) for _ in self.cells] for _ in range(2))

    def _symbols(self, text: Text) -> tuple[object, ...]:
        return text.tokens if self._by_tokens else tuple(text.text)


def _over_cuts(pairs: Pairs) -> float:
    """The average over cuts, whose bets are on the same pairs."""
    evidence = pairs.evidence()
    return float(np.logaddexp.reduce(evidence) - np.log(evidence.size))


def _together(cells: Sequence[Pairs]) -> float:
    return log_average_and_product(np.array([_over_cuts(one) for one in cells]))
