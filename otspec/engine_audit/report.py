"""The result of an audit of an engine, and how it is printed."""

from __future__ import annotations

import json
import math
import textwrap
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from otspec.engine_audit.engine import Acceptance
from otspec.engine_audit.outcome import EngineOutcome, EngineVerdict, Place
from otspec.engine_audit.settings import EngineAuditSettings

MARGIN, WIDTH = 13, 110
"""Characters before the text of a line, and of a line."""

SHOWN = 24
"""Places that a report lists at most."""


@dataclass(frozen=True, eq=False)
class EngineAudit:
    """The result of `audit_engine`; `print` shows it whole.

    Examples
    --------
    >>> from otspec.engine_audit import FunctionLaws, audit_engine
    >>> from otspec.engine_audit.adapters.function import Function
    >>> law = lambda before: [0.7, 0.2, 0.1]
    >>> greedy = lambda before: [1.0, 0.0, 0.0]
    >>> audit = audit_engine(Function(law, greedy), prompts=[""], laws=FunctionLaws(law))
    >>> str(audit).partition(":")[0]
    'NOT LOSSLESS'
    """

    outcome: EngineOutcome
    settings: EngineAuditSettings
    engine: str
    version: str
    method: str

    @property
    def verdict(self) -> EngineVerdict:
        """not lossless, no evidence, or cannot tell."""
        return self.outcome.verdict

    @property
    def reason(self) -> str:
        """One sentence with the numbers that decided the verdict."""
        return self.outcome.reason

    def as_dict(self) -> dict[str, Any]:
        """The result as plain dictionaries, lists, strings and numbers; what is infinite or NaN is a string."""
        about = {"engine": self.engine, "version": self.version, "method": self.method}
        return _plain(about | {"settings": self.settings.reported()} | asdict(self.outcome))

    def to_json(self) -> str:
        """The result of `as_dict` as JSON."""
        return json.dumps(self.as_dict(), indent=2)

    def __str__(self) -> str:
        lines = [f"{self.verdict.upper()}: {self.reason}", ""]
        lines += [f"{name:<{MARGIN}}{text}" for name, text in self._lines()]
        return "\n".join(textwrap.fill(line, WIDTH, subsequent_indent=" " * MARGIN) for line in lines)

    def _lines(self) -> list[tuple[str, str]]:
        outcome = self.outcome
        lines = [
            ("engine", f"{self.engine} {self.version}; {self.method}"),
            ("texts", f"{outcome.texts:,} with drafts, {outcome.plain_texts:,} without, by {outcome.compared_with}"),
        ]
        for test in outcome.tests:
            said = "REJECTED" if test.rejected else "not rejected"
            lines.append(
                (
                    f"{test.name} test"[: MARGIN - 1],
                    f"{said} that {test.hypothesis}; "
                    f"evidence {power(test.evidence)}, rejects at {power(test.threshold)}",
                )
            )
        lines += [(f"position {place.position}", _place(place)) for place in outcome.places[:SHOWN]]
        control = outcome.control
        by = "" if control.tv is None else f", each token off by {control.tv:.3f} on average"
        caught = "not caught" if control.caught is None else f"caught at {control.caught:,} texts"
        lines.append(("control", f"{caught}: {control.rule}{by}"))
        if outcome.acceptance is not None:
            lines.append(("acceptance", _accepted(outcome.acceptance)))
        if outcome.undecided:
            lines.append(("left out", f"{outcome.undecided:,} tokens whose truncated law hangs on rounding"))
        return lines + [("finding", finding.message) for finding in outcome.findings]


def power(log: float) -> str:
    """exp(log) in words that stay short for any size."""
    if math.isinf(log):
        return "infinite"
    return f"{math.exp(log):.3g}" if abs(log) < 14 else f"1e{log / math.log(10):+.0f}"


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


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, tuple | list):
        return [_plain(entry) for entry in value]
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    return str(value) if isinstance(value, StrEnum) else value
