"""The result of an audit of an engine, and how it is printed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from otspec.auditing.engines.engine import Acceptance
from otspec.auditing.engines.outcome import EngineOutcome, EngineVerdict, Place
from otspec.auditing.engines.settings import EngineAuditSettings
from otspec.auditing.report import Report, power, spelled

SHOWN = 24
"""Places that a report lists at most."""


@dataclass(frozen=True, eq=False)
class EngineAudit(Report[EngineVerdict]):
    """The result of `audit_engine`; `print` shows it whole.

    Examples
    --------
    >>> import numpy as np
    >>> from otspec.auditing.engines import FunctionLaws, audit_engine
    >>> def engine(prompt, count, length, sampling, seed, drafts):
    ...     law = [1, 0, 0] if drafts or sampling.greedy else [0.7, 0.2, 0.1]
    ...     return np.random.default_rng(seed).choice(3, (count, length), p=law)
    >>> audit = audit_engine(engine, prompts=[""], laws=FunctionLaws(lambda before: [0.7, 0.2, 0.1]))
    >>> str(audit).partition(":")[0]
    'NOT LOSSLESS'
    """

    outcome: EngineOutcome
    settings: EngineAuditSettings
    engine: str
    version: str
    method: str
    own_config: Mapping[str, Any] = field(default_factory=dict)
    """What of the target's own generation configuration acts, on the text and on the law that it is held against."""

    def _about(self) -> dict[str, Any]:
        about: dict[str, Any] = {"engine": self.engine, "version": self.version, "method": self.method}
        return about | {"own_config": dict(self.own_config), "settings": self.settings.reported()}

    def _lines(self) -> list[tuple[str, str]]:
        outcome = self.outcome
        lines = [
            ("engine", " ".join(filter(None, (self.engine, self.version))) + f"; {self.method}"),
            *([("law", f"under the target's own {spelled(self.own_config)}")] if self.own_config else []),
            ("texts", f"{outcome.texts:,} with drafts, {outcome.plain_texts:,} without, by {outcome.compared_with}"),
        ]
        lines += self._test_lines()
        lines += [(f"position {place.position}", _place(place)) for place in outcome.places[:SHOWN]]
        control = outcome.control
        by = "" if control.tv is None else f", each token off by {control.tv:.3f} on average"
        caught = "not caught" if control.caught is None else f"caught at {control.caught:,} texts"
        lines.append(("control", f"{caught}: {control.rule}{by}"))
        if outcome.acceptance is not None:
            lines.append(("acceptance", _accepted(outcome.acceptance)))
        if outcome.undecided:
            lines.append(("left out", f"{outcome.undecided:,} tokens whose truncated law hangs on rounding"))
        return lines


def _place(place: Place) -> str:
    return (
        f"{place.sampling}: evidence {power(place.evidence)}, off by at least {place.lower:.3f}; text up to here by at "
        f"most {place.upper:.3f}"
    )


def _accepted(told: Acceptance) -> str:
    text = f"{told.accepted:,} of {told.drafted:,} drafts in {told.steps:,} steps"
    if told.per_position and told.steps:
        text += "; by position " + ", ".join(f"{one / told.steps:.3f}" for one in told.per_position)
    return text
