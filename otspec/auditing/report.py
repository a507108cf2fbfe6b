"""The result of an audit, of a rule or of an engine: printed whole, as a dictionary, or as JSON."""

from __future__ import annotations

import json
import math
import textwrap
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, ClassVar, Generic

import numpy as np

from otspec.auditing.outcome import AuditVerdict, Conclusion, Figures, Finding, Outcome, V, Witness
from otspec.auditing.settings import AuditSettings

MARGIN = 13
"""Characters before the text of a line."""

WIDTH = 110
"""Characters of a line."""


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
        return "\n".join(textwrap.fill(line, WIDTH, subsequent_indent=" " * MARGIN) for line in lines)

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


def spelled(settings: Mapping[str, Any]) -> str:
    """Settings and their values, in words."""
    return ", ".join(f"{name} {value}" for name, value in settings.items()) or "nothing"


@dataclass(frozen=True, eq=False)
class Audit(Report[AuditVerdict]):
    """The result of `otspec.audit`; `print` shows it whole.

    Examples
    --------
    >>> import otspec
    >>> audit = otspec.audit("rrs", scheme="iid", n=2)
    >>> print(str(audit).splitlines()[0].split(":")[0])
    LOSSLESS
    """

    outcome: Outcome
    settings: AuditSettings
    rule: str
    """Name of the rule."""
    form: str
    """Name of the form in which the rule was called."""
    drafts: str
    """The drafts, in words."""

    counted: ClassVar[str] = "tuple of drafts"
    """What an exact audit enumerates, in words."""

    @property
    def instances(self) -> tuple[Figures, ...]:
        """What was measured on each instance."""
        return self.outcome.instances

    @property
    def worst(self) -> Witness | None:
        """The worst instance, replayable."""
        return self.outcome.worst

    @property
    def tv(self) -> float | None:
        """Total variation of the output law to p on the worst instance."""
        return None if self._worst_figures is None else self._worst_figures.tv

    @property
    def tv_interval(self) -> tuple[float, float] | None:
        """Confidence interval of `tv`; a point where the law was enumerated."""
        return None if self._worst_figures is None else self._worst_figures.tv_interval

    @property
    def _worst_figures(self) -> Figures | None:
        name = None if self.worst is None else self.worst.name
        return next((one for one in self.instances if one.name == name), None)

    def mean(self, figure: str) -> float | None:
        """Mean of a figure, by its name in `Figures`, over the instances that have it; None if none has it."""
        values = [value for one in self.instances if (value := getattr(one, figure)) is not None]
        return float(np.mean(values)) if values else None

    def as_dict(self) -> dict[str, Any]:
        """The result as plain dictionaries, lists, strings and numbers; what is infinite or NaN is a string."""
        return super().as_dict() | {"tv": plain(self.tv)}

    def _about(self) -> dict[str, Any]:
        return {"rule": self.rule, "form": self.form, "drafts": self.drafts} | self.settings.reported()

    def _lines(self) -> list[tuple[str, str]]:
        tried, cases = len(self.instances), self.outcome.cases
        over = f"{tried} instances" if tried == cases else f"{tried} of {cases} instances"
        if self.outcome.method == "exact":
            method = f"exact: every {self.counted} of {over}, tolerance {self.settings.tol:g}"
        else:
            method = f"sampled: {self.outcome.draws:,} draws over {over}"
        lines = [("rule", f"{self.rule}, as {self.form}"), ("drafts", self._drafts_line()), ("method", method)]
        if self.instances:
            lines += [("TV to p", self._tv_line()), ("acceptance", self._acceptance_line())]
        return lines + self._test_lines()

    def _last_lines(self) -> list[tuple[str, str]]:
        worst = self.worst
        if worst is None or self.verdict is AuditVerdict.LOSSLESS:
            return []
        shown = {
            "p": worst.p,
            "q": worst.q,
            "told q": None if worst.shown == worst.q else worst.shown,
            "drafts": worst.drafts,
            "output": worst.output or None,
        }
        about = ("worst", f"{worst.name} (n = {worst.n}, seed {worst.seed})")
        return [about, *((f"  {name}", _numbers(values)) for name, values in shown.items() if values is not None)]

    def _drafts_line(self) -> str:
        return f"{self.drafts}, n = {self.settings.n}"

    def _tv_line(self) -> str:
        mean = f"mean {self.mean('tv'):.4f}"
        if self.outcome.method == "exact":
            return f"{mean}, worst {max(one.tv for one in self.instances):.4g}"
        grouped = "; large vocabularies in groups" if any(one.grouped for one in self.instances) else ""
        text = f"{mean} (noise included{grouped})"
        if self.tv is not None and self.tv_interval is not None:
            text += f"; worst {self.tv:.4f} in [{self.tv_interval[0]:.4f}, {self.tv_interval[1]:.4f}]"
        most = max(one.tv_interval[1] for one in self.instances)
        return f"{text}; at most {most:.4f} anywhere, confidence {self.settings.confidence:g}"

    def _acceptance_line(self) -> str:
        step, own, iid = (self.mean(name) for name in ("step_acceptance", "optimum", "optimum_iid"))
        text = f"{self.mean('membership'):.4f} (the output is a draft)"
        text += "" if step is None else f", {step:.4f} (the rule says so)"
        text += "; alpha* of these drafts " + ("unknown" if own is None else f"{own:.4f}")
        return text + ("" if iid is None else f", of i.i.d. drafts {iid:.4f}")


def _numbers(values: list[Any], most: int = 8) -> str:
    if values and isinstance(values[0], list):
        return "[" + ", ".join(_numbers(row, most) for row in values) + "]"
    shown = ", ".join(f"{value:.4g}" for value in values[:most])
    return f"[{shown}{f', ... {len(values)} tokens' if len(values) > most else ''}]"
