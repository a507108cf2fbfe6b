"""What an audit of a rule found, and how it is printed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from otspec.auditing.outcome import AuditVerdict, Figures, Outcome, WorstCase
from otspec.auditing.report import Report, plain
from otspec.auditing.settings import AuditSettings


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
    outputs: ClassVar[str] = "tokens"
    """What p is a law of, in words."""

    @property
    def instances(self) -> tuple[Figures, ...]:
        """What was measured on each instance."""
        return self.outcome.instances

    @property
    def worst(self) -> WorstCase | None:
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
            "shown q": None if worst.shown == worst.q else worst.shown,
            "drafts": worst.drafts,
            "output": worst.output or None,
        }
        about = ("worst", f"{worst.name} (n = {worst.n}, seed {worst.seed})")
        laws = {name: _numbers(values, self.outputs) for name, values in shown.items() if values is not None}
        return [about, *((f"  {name}", law) for name, law in laws.items())]

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
        text += "" if step is None else f", {step:.4f} (as the rule reports)"
        text += "; alpha* of these drafts " + ("unknown" if own is None else f"{own:.4f}")
        return text + ("" if iid is None else f", of i.i.d. drafts {iid:.4f}")


@dataclass(frozen=True, eq=False)
class PathAudit(Audit):
    """The result of `otspec.audit_paths`; `print` shows it whole.

    Examples
    --------
    >>> import otspec
    >>> from otspec.verification import Traversal
    >>> audit = otspec.audit_paths(Traversal(), count=2, length=2)
    >>> print(str(audit).splitlines()[0].split(":")[0])
    LOSSLESS
    """

    branching: tuple[int, ...]
    """How many children each drafted token of a level has; (K, 1, ..., 1) for K paths."""

    counted: ClassVar[str] = "drafted tree"
    outputs: ClassVar[str] = "texts, 0 ... 0 first"

    def _drafts_line(self) -> str:
        return self.drafts

    def _acceptance_line(self) -> str:
        length = len(self.branching)
        mean, bound = (self.mean(name) for name in ("membership", "optimum"))
        assert mean is not None, "there are instances"
        text = f"{length * mean:.4f} of {length} drafted tokens on average"
        return text + ("" if bound is None else f"; a lossless rule accepts at most {length * bound:.4f}")


def _numbers(values: list[Any], what: str, most: int = 8) -> str:
    if values and isinstance(values[0], list):
        return "[" + ", ".join(_numbers(row, what, most) for row in values) + "]"
    shown = ", ".join(f"{value:.4g}" for value in values[:most])
    return f"[{shown}{f', ... {len(values)} {what}' if len(values) > most else ''}]"
