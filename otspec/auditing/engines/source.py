"""Where texts of an audit come from: an engine that is asked once for each request, or a file that has the answer."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from otspec.auditing.engines.engine import Engine, EngineDied, Sampling, Text
from otspec.auditing.engines.judge import Batch, Cell, Judge
from otspec.auditing.engines.settings import EngineAuditSettings
from otspec.auditing.engines.storage import Texts
from otspec.errors import ProblemError

Draw = Callable[[Cell, int, int], Batch]
"""From a cell, how many texts and the number of the look to what was drawn."""


class Source:
    """Texts of an engine, each request asked for once.

    Parameters
    ----------
    engine : Engine
    texts : Texts
        Those that are there already.
    settings : EngineAuditSettings
    """

    def __init__(self, engine: Engine, texts: Texts, settings: EngineAuditSettings) -> None:
        self._engine, self._texts, self._settings = engine, texts, settings

    def get(
        self, prompt: str, count: int, length: int, sampling: Sampling, kind: str, place: tuple[int, int]
    ) -> list[Text]:
        """Texts of a prompt; `kind` is "drafted", "plain" or "control", `place` the number of cell and look."""
        kinds = ("drafted", "plain", "control")
        seeds = np.random.SeedSequence((self._settings.seed, kinds.index(kind), *place))
        seed = int(seeds.generate_state(1)[0]) % 2**31

        def make() -> list[Text]:
            try:
                return self._engine.texts(prompt, count, length, sampling, seed, drafts=kind == "drafted")
            except (ProblemError, ImportError):
                raise
            except Exception as error:
                request = f"{count} texts of {length} tokens after {prompt!r}, {sampling}, {kind}"
                raise EngineDied(f"{self._engine.name} died at {request}: {type(error).__name__}: {error}") from error

        drawn = self._texts.get((kind, *place, count), make)
        if len(drawn) != count:
            raise ProblemError(
                f"{self._engine.name} was asked for {count} texts after {prompt!r} and gave {len(drawn)}"
            )
        return drawn

    def batch(self, judge: Judge) -> Draw:
        """What draws a batch of a cell for this judge."""

        def draw(cell: Cell, count: int, look: int) -> Batch:
            length, place = self._settings.length, (cell.number, look)
            drafted, plain = (
                self.get(cell.prompt, count, length, cell.sampling, kind, place) for kind in ("drafted", "plain")
            )
            other = judge.control_sampling(cell.sampling)
            control = [] if other is None else self.get(cell.prompt, count, length, other, "control", place)
            return Batch(drafted, plain, control)

        return draw
