"""The result of an audit, of a rule or of an engine: printed whole, as a dictionary, or as JSON."""

from __future__ import annotations

import json
import math
import shutil
import textwrap
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict
from enum import StrEnum
from typing import Any, Generic

from otspec.auditing.outcome import Conclusion, Finding, V

MARGIN = 13
"""Characters before the text of a line."""

WIDTH = 110
"""Characters of a line, of a narrower terminal as many as it has."""


class Report(ABC, Generic[V]):
    """What an audit found; `print` shows it whole."""

    outcome: Conclusion[V]

    @property
    def verdict(self) -> V:
        """One of three: the audit finds a fault, vouches, or cannot tell."""
        return self.outcome.verdict

    @property
    def reason(self) -> str:
        """One sentence with the numbers that decided the verdict."""
        return self.outcome.reason

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What else the user should know."""
        return self.outcome.findings

    def as_dict(self) -> dict[str, Any]:
        """The result as plain dictionaries, lists, strings and numbers; what is infinite or NaN is a string."""
        return plain(self._about() | asdict(self.outcome))

    def to_json(self) -> str:
        """The result of `as_dict` as JSON."""
        return json.dumps(self.as_dict(), indent=2)

    def __str__(self) -> str:
        labelled = [*self._lines(), *(("finding", one.message) for one in self.findings), *self._last_lines()]
        lines = [f"{self.verdict.upper()}: {self.reason}", ""]
        lines += [f"{label:<{MARGIN}}{text}" for label, text in labelled]
        width = max(2 * MARGIN, min(WIDTH, shutil.get_terminal_size((WIDTH, 0)).columns))
        return "\n".join(textwrap.fill(line, width, subsequent_indent=" " * MARGIN) for line in lines)

    @abstractmethod
    def _about(self) -> dict[str, Any]:
        """What was audited, and by which settings."""

    @abstractmethod
    def _lines(self) -> list[tuple[str, str]]:
        """The figures of the report, line by line, each with its label."""

    def _test_lines(self) -> list[tuple[str, str]]:
        """What came of the sequential tests, in words."""
        return [
            (
                f"{test.name} test"[: MARGIN - 1],
                f"{'REJECTED' if test.rejected else 'not rejected'} that {test.hypothesis}; "
                f"evidence {power(test.evidence)}, rejects at {power(test.threshold)}",
            )
            for test in self.outcome.tests
        ]

    def _last_lines(self) -> list[tuple[str, str]]:
        """What comes after the findings."""
        return []


def power(log: float) -> str:
    """exp(log) in words that stay short for any size."""
    if math.isinf(log):
        return "infinite"
    digits = log / math.log(10)
    return f"{math.exp(log):.3g}" if abs(digits) < 6 else f"1e{digits:+.0f}"


def plain(value: Any) -> Any:
    """A record as JSON can have it: what is infinite or NaN is a string, and so is a verdict."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, tuple | list):
        return [plain(entry) for entry in value]
    if isinstance(value, dict):
        return {key: plain(entry) for key, entry in value.items()}
    return str(value) if isinstance(value, StrEnum) else value


def settings_text(settings: Mapping[str, Any]) -> str:
    """Settings and their values, in words."""
    return ", ".join(f"{name} {value}" for name, value in settings.items()) or "nothing"
