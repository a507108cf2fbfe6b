"""Texts judged by the exact law."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from otspec.auditing.engines import bounds
from otspec.auditing.engines.draws import ControlledDraws, Draws, read, whole
from otspec.auditing.engines.engine import Sampling, without_ids
from otspec.auditing.engines.evidence import Positions, together
from otspec.auditing.engines.independence import Neighbours
from otspec.auditing.engines.judge import INDEPENDENCE, LAW, Batch, Judge, PromptCell
from otspec.auditing.engines.laws import Laws
from otspec.auditing.engines.report import Control, Place
from otspec.auditing.engines.settings import EngineAuditSettings
from otspec.auditing.evidence import log_average_and_product, mean_of
from otspec.auditing.outcome import Test
from otspec.auditing.report import power
from otspec.errors import ProblemError
from otspec.laws import FloatArray


class ExactLawTest(Judge):
    """Compares texts with the exact law, position by position."""

    compared_with = "exact law"

    def __init__(self, cells: Sequence[PromptCell], settings: EngineAuditSettings, laws: Laws) -> None:
        if not all(hasattr(laws, name) for name in ("along", "ends", "rounding")):
            raise ProblemError(f"laws is {laws!r}; pass FunctionLaws(function), or ModelLaws(model, tokenizer)")
        super().__init__(cells, settings, laws.ends)
        self._laws, length = laws, settings.length
        self._drafted, self._plain, self._both, self._control = ([Positions(length) for _ in cells] for _ in range(4))
        self._neighbours = [Neighbours(length) for _ in cells]
        self._draws: list[list[Draws]] = [[] for _ in cells]
        self._off: list[FloatArray] = []
        self._rng = np.random.default_rng((settings.seed, 1))

    def control_sampling(self, sampling: Sampling) -> None:
        """None: the control is drawn from the law."""

    def compare(self, cell: PromptCell, batch: Batch) -> None:
        """Hold each token against its law."""
        for texts, drafts in ((batch.plain, False), (batch.drafted, True)):
            if without_ids(texts):
                raise ProblemError("the engine tells no tokens, which the exact law needs; leave the exact law out")
            tokens = whole(texts, self.settings.length, self._laws.ends)
            reading = self._read(cell, tokens)
            self.logprobs.add_known(texts, reading.drawn, drafts=drafts)
            self._both[cell.number].add(reading.drawn)
            if not drafts:
                self._plain[cell.number].add(reading.drawn)
                continue
            self._drafted[cell.number].add(reading.drawn)
            self._control[cell.number].add(reading.control)
            self._neighbours[cell.number].add(reading.drawn)
            self.coincidences[cell.number].add(list(tokens))
            self._draws[cell.number].append(reading.drawn)
            self._off.append(reading.off[~np.isnan(reading.off)])
            self.undecided += int((~reading.drawn.decided & (reading.drawn.tokens >= 0)).sum())

    def update(self) -> tuple[Test, ...]:
        """The tests as of now; the control is looked at, too."""
        if self.caught is None and _together(self._control) >= self.threshold:
            self.caught = self.texts
        alone = np.array([one.evidence() for one in self._neighbours])
        most = self.cells[int(alone.argmax())]
        law = [together(one.each) for one in self._drafted]
        worst = self.cells[int(np.argmax(law))]
        return (
            self.test(LAW, "each token has the exact law", _together(self._drafted), str(worst)),
            self.test(
                INDEPENDENCE,
                "requests are independent draws from the exact law",
                mean_of(log_average_and_product(alone), self.dependence()),
                str(most),
            ),
        )

    def places(self, miss: float) -> tuple[Place, ...]:
        """Figures by position, whose bounds hold together but with probability `miss`."""
        groups = self.by_sampling()
        length, each, found = self.settings.length, miss / (2 * len(groups)), []
        for sampling, mine in groups.items():
            draws = [self._draws[cell.number] for cell in mine]
            lower, upper = bounds.lower_known(draws, length, each), bounds.upper_known(draws, length, each)
            for place in range(length):
                positions = [self._drafted[cell.number].each[place] for cell in mine]
                most = max(range(len(mine)), key=lambda number: positions[number].evidence())
                reached = sum(int((one.tokens[:, place] >= 0).sum()) for batches in draws for one in batches)
                bound = float(lower[place]), float(upper[place])
                found.append(Place(str(sampling), place + 1, reached, together(positions), *bound, mine[most].prompt))
        return tuple(found)

    @property
    def control(self) -> Control:
        """What became of the biased rule."""
        off = np.concatenate(self._off) if self._off else np.zeros(1)
        rule = "the exact law mixed with itself at half the temperature, from the second token on"
        return Control(rule, float(off.mean()) if off.size else 0.0, self.caught)

    def doubt(self) -> str | None:
        """Why nothing can be concluded, if texts without drafts have not the exact law."""
        plain, drafted = _together(self._plain), _together(self._drafted)
        # Where both are off, either may show it first.  Text with drafts then foretells text without: the evidence of
        # both together, which is that of the former times what a bet by it wins on the latter, grows.
        won = _together(self._both) - drafted
        if plain < self.threshold and not (drafted >= self.threshold and won > 0):
            return None
        return (
            f"texts without drafts have not the exact law either (evidence {power(max(plain, won))}): is it the same "
            "model, in the same precision, with the same tokens of the prompt? Comparing two samples needs no law"
        )

    def _read(self, cell: PromptCell, tokens: list[tuple[int, ...]]) -> ControlledDraws:
        settings = self.settings
        return read(
            self._laws,
            cell.prompt,
            tokens,
            settings.length,
            cell.sampling,
            bias=settings.control_bias,
            tolerance=settings.tolerance,
            rng=self._rng,
        )


def _together(cells: Sequence[Positions]) -> float:
    """Evidence of all positions of all cells, which bet on different draws."""
    return together([position for one in cells for position in one.each])
