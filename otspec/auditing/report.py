"""What an audit found."""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import StrEnum
from numbers import Real
from typing import Any, ClassVar

import numpy as np

from otspec.errors import ProblemError

Progress = Callable[[int, int], None]
"""Called with what is done and the most that there is to do: instances, or draws."""


LONG = 1e12
"""Seconds, some 30 000 years: no limit is larger."""


def no_progress(done: int, most: int) -> None:
    """Nobody wants to know."""


@dataclass(frozen=True)
class Settings:
    """What was asked for; `otspec.audit` explains each."""

    n: int
    seed: int
    alpha: float
    confidence: float
    resolution: float
    tol: float
    budget: int
    max_seconds: float | None = None

    def __post_init__(self) -> None:
        """Check each.

        Raises
        ------
        ProblemError
            If one is not a number, or out of its range.
        """
        if isinstance(self.seed, bool) or not isinstance(self.seed, int | np.integer) or self.seed < 0:
            raise ProblemError(f"seed is {self.seed!r}; pass an integer >= 0")
        for name in ("alpha", "confidence", "resolution", "tol", "max_seconds"):
            value = getattr(self, name)
            left_out = name == "max_seconds" and value is None
            if not left_out and (isinstance(value, bool) or not isinstance(value, Real)):
                raise ProblemError(f"{name} is {value!r}; pass a number")
        for name in ("alpha", "confidence", "resolution"):
            if not 0 < getattr(self, name) < 1:
                raise ProblemError(f"{name} is {getattr(self, name)}; it lies between 0 and 1")
        if not 0 <= self.tol < 1:
            raise ProblemError(f"tol is {self.tol}; it is a distance in [0, 1)")
        if self.max_seconds is not None and not 0 < self.max_seconds < LONG:
            raise ProblemError(
                f"max_seconds is {self.max_seconds}; it is above 0 and below {LONG:g}, or None for no limit"
            )


class AuditVerdict(StrEnum):
    """What the audit says of a rule.

    Examples
    --------
    >>> import otspec
    >>> [verdict.value for verdict in otspec.AuditVerdict]
    ['lossless', 'not lossless', 'inconclusive']
    """

    LOSSLESS = "lossless"
    """The output law is p: up to rounding if enumerated, up to the resolution and with the confidence if sampled."""
    NOT_LOSSLESS = "not lossless"
    """The output law is not p, or consecutive outputs depend on each other, or some output is not a token at all."""
    INCONCLUSIVE = "inconclusive"
    """Nothing speaks against the rule, but draws or time did not suffice to vouch for it, or it refuses instances."""


@dataclass(frozen=True)
class Finding:
    """One thing that the user should know."""

    message: str
    bias: bool
    """Whether it proves by itself that the rule is not lossless (a statistical one up to alpha)."""


@dataclass(frozen=True)
class Test:
    """A sequential test of one necessary condition."""

    name: str
    hypothesis: str
    evidence: float
    """Natural logarithm of the e-value when the audit stopped, the whole audit's."""
    threshold: float
    """The hypothesis is rejected at or above this."""
    largest: str
    """The instance that speaks against it most."""

    @property
    def rejected(self) -> bool:
        """Whether the hypothesis is rejected."""
        return self.evidence >= self.threshold


@dataclass(frozen=True, eq=False)
class Figures:
    """What the audit measured on one instance."""

    ceiling: ClassVar[str] = "above alpha*"
    """What an excess is measured from, in words."""

    name: str
    vocab: int
    draws: int
    """Calls of the rule; 0 if its law was enumerated."""
    tv: float
    """Total variation of the output law to p."""
    tv_interval: tuple[float, float]
    membership: float
    """P(the output is one of the drafts)."""
    membership_error: float
    """Its statistical error, with the confidence of the audit; 0 if enumerated."""
    step_acceptance: float | None
    """P(the rule says that it accepted a draft), if it says."""
    optimum: float | None
    """alpha* of the drafts, or a certified upper bound; None if their law is not known."""
    optimum_iid: float | None
    """alpha* of as many i.i.d. drafts from the same q."""
    grouped: bool
    """Whether `tv` is over groups of tokens, and so a lower bound."""
    tv_tokens: float
    """Upper bound of the total variation token by token, at the confidence of `tv_interval`; its end if not grouped."""
    drafts_tv: float | None
    """Total variation of the law of the drafts to the one that the rule is told of; None where it is not enumerated."""

    @property
    def excess(self) -> float:
        """By how much it accepts more than any lossless rule can, the statistical error taken off; 0 if it does not."""
        return 0.0 if self.optimum is None else max(self.membership - self.membership_error - self.optimum, 0.0)


@dataclass(frozen=True, eq=False)
class Witness:
    """The worst instance, with all that is needed to see it again."""

    name: str
    p: list[float]
    q: list[Any]
    shown: list[Any]
    n: int
    seed: int
    output: list[float]
    """Law of the output, or shares of the draws."""
    drafts: list[int] | None = None
    """Of an invalid output: the drafts that it was given for."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """What an audit came to."""

    verdict: AuditVerdict
    reason: str
    """One sentence with the numbers that decided the verdict."""
    method: str
    """"exact" or "sampled"."""
    instances: tuple[Figures, ...] = ()
    tests: tuple[Test, ...] = ()
    findings: tuple[Finding, ...] = ()
    worst: Witness | None = None
    draws: int = 0
    """Calls of the rule, where it was sampled."""
    cases: int = 0
    """Instances that the rule was to be tried on; those that it refuses, or breaks on, have no figures."""


@dataclass(frozen=True, eq=False)
class Audit:
    """The result of `otspec.audit`; `print` shows it whole.

    Examples
    --------
    >>> import otspec
    >>> audit = otspec.audit("rrs", scheme="iid", n=2)
    >>> print(str(audit).splitlines()[0].split(":")[0])
    LOSSLESS
    """

    outcome: Outcome
    settings: Settings
    rule: str
    form: str
    drafts: str

    counted: ClassVar[str] = "tuple of drafts"
    """What an exact audit enumerates, in words."""

    @property
    def verdict(self) -> AuditVerdict:
        """lossless, not lossless, or inconclusive."""
        return self.outcome.verdict

    @property
    def reason(self) -> str:
        """One sentence with the numbers that decided the verdict."""
        return self.outcome.reason

    @property
    def instances(self) -> tuple[Figures, ...]:
        """What was measured on each instance."""
        return self.outcome.instances

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What else the user should know."""
        return self.outcome.findings

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
        """Its confidence interval; a point where the law was enumerated."""
        return None if self._worst_figures is None else self._worst_figures.tv_interval

    @property
    def _worst_figures(self) -> Figures | None:
        name = None if self.worst is None else self.worst.name
        return next((one for one in self.instances if one.name == name), None)

    def as_dict(self) -> dict[str, Any]:
        """Plain dictionaries, lists, strings and numbers; what is infinite or NaN is a string."""
        about = {"rule": self.rule, "form": self.form, "drafts": self.drafts}
        return _plain(about | asdict(self.settings) | asdict(self.outcome) | {"tv": self.tv})

    def to_json(self) -> str:
        """`as_dict` as JSON."""
        return json.dumps(self.as_dict(), indent=2)

    def mean(self, figure: str) -> float | None:
        """Mean of a figure over the instances that have it."""
        values = [value for one in self.instances if (value := getattr(one, figure)) is not None]
        return float(np.mean(values)) if values else None

    def __str__(self) -> str:
        lines = [f"{self.verdict.upper()}: {self.reason}", ""]
        lines += [f"{name:<{MARGIN}}{text}" for name, text in self._lines().items()]
        lines += [f"{'finding':<{MARGIN}}{finding.message}" for finding in self.findings]
        if self.worst is not None and self.verdict is not AuditVerdict.LOSSLESS:
            lines += _witness_lines(self.worst)
        return "\n".join(textwrap.fill(line, WIDTH, subsequent_indent=" " * MARGIN) for line in lines)

    def _lines(self) -> dict[str, str]:
        lines = {"rule": f"{self.rule}, as {self.form}", "drafts": self._drafts_line()}
        tried, asked = len(self.instances), self.outcome.cases
        over = f"{tried} instances" if tried == asked else f"{tried} of {asked} instances"
        if self.outcome.method == "exact":
            lines["method"] = f"exact: every {self.counted} of {over}, tolerance {self.settings.tol:g}"
        else:
            lines["method"] = f"sampled: {self.outcome.draws:,} draws over {over}"
        if self.instances:
            lines["TV to p"] = self._tv_line()
            lines["acceptance"] = self._acceptance_line()
        for test in self.outcome.tests:
            lines[f"{test.name} test"] = (
                f"{'REJECTED' if test.rejected else 'not rejected'} that {test.hypothesis}; "
                f"evidence {_power(test.evidence)}, rejects at {_power(test.threshold)}"
            )
        return lines

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


MARGIN = 13
"""Characters before the text of a line."""

WIDTH = 110
"""Characters of a line."""


def _witness_lines(worst: Witness) -> list[str]:
    entries = {"p": worst.p, "q": worst.q}
    if worst.shown != worst.q:
        entries["told q"] = worst.shown
    if worst.drafts is not None:
        entries["drafts"] = worst.drafts
    if worst.output:
        entries["output"] = worst.output
    lines = [f"{'worst':<{MARGIN}}{worst.name} (n = {worst.n}, seed {worst.seed})"]
    return lines + [f"{'  ' + name:<{MARGIN}}{_numbers(values)}" for name, values in entries.items()]


def _numbers(values: list[Any], most: int = 8) -> str:
    if values and isinstance(values[0], list):
        return "[" + ", ".join(_numbers(row, most) for row in values) + "]"
    shown = ", ".join(f"{value:.4g}" for value in values[:most])
    return f"[{shown}{f', ... {len(values)} tokens' if len(values) > most else ''}]"


def _power(log: float) -> str:
    """exp(log) in words that stay short for any size."""
    if math.isinf(log):
        return "infinite"
    digits = log / math.log(10)
    return f"{math.exp(log):.3g}" if abs(digits) < 6 else f"1e{digits:+.0f}"


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, tuple | list):
        return [_plain(entry) for entry in value]
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    return str(value) if isinstance(value, StrEnum) else value
