"""What an audit of drafted paths found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from otspec.auditing.outcome import Figures
from otspec.auditing.report import Audit


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
        """What a lossless rule can accept at most, tokens on the mean; None if that was not computed."""
        return None if self.optimum is None else self.length * self.optimum


@dataclass(frozen=True, eq=False)
class PathAudit(Audit):
    """The result of `otspec.audit_paths`; `print` shows it whole.

    Examples
    --------
    >>> import otspec
    >>> from otspec.paths import Traversal
    >>> audit = otspec.audit_paths(Traversal(), count=2, length=2)
    >>> print(str(audit).splitlines()[0].split(":")[0])
    LOSSLESS
    """

    branching: tuple[int, ...]
    """How many children each drafted token of a level has; (K, 1, ..., 1) for K paths."""

    counted: ClassVar[str] = "drafted tree"

    def _drafts_line(self) -> str:
        return self.drafts

    def _acceptance_line(self) -> str:
        length = len(self.branching)
        mean, bound = (self.mean(name) for name in ("membership", "optimum"))
        assert mean is not None, "there are instances"
        text = f"{length * mean:.4f} of {length} drafted tokens on the mean"
        return text + ("" if bound is None else f"; a lossless rule accepts at most {length * bound:.4f}")
