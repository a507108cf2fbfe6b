"""What an audit comes to: verdict, figures, tests, findings and the worst case, as plain records."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar, Generic, TypeVar


class AuditVerdict(StrEnum):
    """What the audit concludes about a rule.

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
    """No evidence against the rule, but draws or time did not suffice to vouch for it, or it refuses instances."""


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
    """The instance with the most evidence against it."""

    @property
    def rejected(self) -> bool:
        """Whether the hypothesis is rejected."""
        return self.evidence >= self.threshold


V = TypeVar("V", bound=StrEnum)


@dataclass(frozen=True, eq=False, kw_only=True)
class Conclusion(Generic[V]):
    """What every audit comes to, of a rule or of an engine."""

    verdict: V
    reason: str
    """One sentence with the numbers that decided the verdict."""
    tests: tuple[Test, ...] = ()
    """The sequential tests, where draws were made."""
    findings: tuple[Finding, ...] = ()
    """What else the user should know."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Figures:
    """What the audit measured on one case; what has a default is as of a case whose law was enumerated."""

    ceiling: ClassVar[str] = "above alpha*"
    """What an excess is measured from, in words."""

    name: str
    vocab: int
    """Number of tokens V."""
    draws: int = 0
    """Calls of the rule; 0 if its law was enumerated."""
    tv: float
    """Total variation of the output law to p."""
    tv_interval: tuple[float, float]
    """Confidence interval of `tv`; a point if the law was enumerated."""
    membership: float
    """P(the output is one of the drafts)."""
    membership_error: float = 0.0
    """Statistical error of `membership`, with the confidence of the audit; 0 if the law was enumerated."""
    step_acceptance: float | None = None
    """P(the rule reports that it accepted a draft); None if it does not report."""
    optimum: float | None
    """alpha* of the drafts, or a certified upper bound; None if their law is not known."""
    optimum_iid: float | None = None
    """alpha* of as many i.i.d. drafts from the same q; None where there is no such q."""
    grouped: bool = False
    """Whether `tv` is over groups of tokens, and so a lower bound."""
    tv_tokens: float
    """Upper bound of the total variation token by token, with the confidence of `tv_interval`."""
    drafts_tv: float | None = None
    """Total variation of the law of the drafts to the one declared to the rule; None where it is not enumerated."""

    @property
    def excess(self) -> float:
        """By how much it accepts more than any lossless rule can, less the statistical error; 0 if it does not."""
        return 0.0 if self.optimum is None else max(self.membership - self.membership_error - self.optimum, 0.0)


@dataclass(frozen=True, eq=False, kw_only=True)
class PathFigures(Figures):
    """What the audit measured on one model: of texts of L + 1 tokens, each counted as one.

    `membership` is the mean share of the L levels that are accepted, `optimum` what a lossless rule can reach of it.
    """

    ceiling: ClassVar[str] = "of the levels above the bound of docs/paths.md"

    length: int
    """Drafted tokens of a path, L."""

    @property
    def accepted(self) -> float:
        """Mean number of accepted tokens."""
        return self.length * self.membership

    @property
    def bound(self) -> float | None:
        """The most that a lossless rule can accept, in tokens on average; None if it was not computed."""
        return None if self.optimum is None else self.length * self.optimum


@dataclass(frozen=True, eq=False)
class WorstCase:
    """The worst case, with all that is needed to see it again."""

    name: str
    p: list[float]
    """Law that the output should have, V numbers."""
    q: list[Any]
    """Law that the drafts are made from: V numbers, or n lists of them."""
    shown: list[Any]
    """Law that the rule is shown in place of `q`."""
    n: int
    """Drafts of a position, or paths of a tree."""
    seed: int
    output: list[float]
    """Law of the output, or shares of the draws, V numbers; empty if an output is invalid."""
    drafts: list[int] | None = None
    """The drafts that an invalid output was given for; None if all outputs are valid."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Outcome(Conclusion[AuditVerdict]):
    """What the audit of a rule came to."""

    method: str
    """"exact" or "sampled"."""
    instances: tuple[Figures, ...] = ()
    """The figures of each case that was measured."""
    worst: WorstCase | None = None
    draws: int = 0
    """Calls of the rule, where it was sampled."""
    cases: int = 0
    """Cases that the rule was to be tried on; those that it refuses, or breaks on, have no figures."""
