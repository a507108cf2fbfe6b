"""What an audit of an engine comes to, as plain records, and how it is printed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from otspec.auditing.engines.engine import Acceptance
from otspec.auditing.engines.settings import EngineAuditSettings
from otspec.auditing.outcome import Conclusion
from otspec.auditing.report import Report, power, settings_text


class EngineVerdict(StrEnum):
    """What the audit says of an engine.

    Examples
    --------
    >>> from otspec.auditing.engines import EngineVerdict
    >>> [verdict.value for verdict in EngineVerdict]
    ['not lossless', 'no evidence', 'cannot tell']
    """

    NOT_LOSSLESS = "not lossless"
    """Text with drafts is not what the engine would write without, or not independent from request to request."""
    NO_EVIDENCE = "no evidence"
    """Nothing speaks against the engine, and the control, which is biased, was caught by as many texts."""
    CANNOT_TELL = "cannot tell"
    """Too few texts, or text without drafts has not the law either; the reason says which."""


@dataclass(frozen=True)
class Place:
    """One position of the texts under one sampling, all prompts together."""

    sampling: str
    position: int
    """1 is the first token (character, where the engine tells no tokens)."""
    texts: int
    """How many with drafts got there."""
    evidence: float
    """Natural logarithm of the e-value against "the law is as it should be" here."""
    lower: float
    """The total variation is at least this.  Exact law: of this token's law given the text before it, averaged over
    such texts.  Two samples: of the text up to here."""
    upper: float
    """The total variation of the text up to here is at most this."""
    prompt: str
    """The prompt after which the evidence is largest."""


@dataclass(frozen=True)
class Control:
    """What became of the biased rule that the audit looks at in the same way."""

    rule: str
    """In words."""
    tv: float | None
    """Total variation by which each of its tokens is off; None where it is not known."""
    caught: int | None
    """Number of texts at which the tests rejected it; None if they did not."""


@dataclass(frozen=True)
class Divergence:
    """Where greedy text with drafts first differs from that without."""

    prompt: str
    position: int
    """1 is the first token, or character."""
    plain: str
    """What is there without drafts: a token, or a character."""
    drafted: str
    logit_plain: float | None
    """Logit of the plain token there, by an exact pass; None without the model."""
    logit_drafted: float | None
    logit_best: float | None
    """The largest."""
    cause: str
    """"near tie", "rule", "plain text" (which is not greedy there), or "unknown"."""


@dataclass(frozen=True, eq=False, kw_only=True)
class EngineOutcome(Conclusion[EngineVerdict]):
    """What an audit of an engine came to."""

    compared_with: str
    """"exact law" or "text without drafts"."""
    texts: int
    """How many with drafts were looked at."""
    plain_texts: int
    """How many without."""
    places: tuple[Place, ...]
    control: Control
    divergences: tuple[Divergence, ...]
    acceptance: Acceptance | None
    undecided: int
    """Tokens left out because rounding decides which tokens their truncated law has."""

    @property
    def worst(self) -> Place | None:
        """The place with the largest lower bound, or else with the most evidence."""
        return max(self.places, key=lambda place: (place.lower, place.evidence), default=None)


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
            *([("law", f"under the target's own {settings_text(self.own_config)}")] if self.own_config else []),
            ("texts", f"{outcome.texts:,} with drafts, {outcome.plain_texts:,} without, by {outcome.compared_with}"),
        ]
        lines += self._test_lines()
        lines += [(f"position {place.position}", _place(place)) for place in outcome.places[:SHOWN]]
        control = outcome.control
        by = "" if control.tv is None else f", each token off by {control.tv:.3f} on average"
        missed = "not needed" if outcome.verdict is EngineVerdict.NOT_LOSSLESS else "not caught"
        caught = missed if control.caught is None else f"caught at {control.caught:,} texts"
        lines.append(("control", f"{caught}: {control.rule}{by}"))
        if outcome.acceptance is not None:
            lines.append(("acceptance", f"{_accepted(outcome.acceptance)}, since the engine started"))
        if outcome.undecided:
            lines.append(("left out", f"{outcome.undecided:,} tokens whose truncated law hangs on rounding"))
        return lines


def _place(place: Place) -> str:
    return (
        f"{place.sampling}: evidence {power(place.evidence)}, off by at least {place.lower:.3f}; text up to here by at "
        f"most {place.upper:.3f}"
    )


def _accepted(acceptance: Acceptance) -> str:
    text = f"{acceptance.accepted:,} of {acceptance.drafted:,} drafts in {acceptance.steps:,} steps"
    if acceptance.per_position and acceptance.steps:
        text += "; by position " + ", ".join(f"{one / acceptance.steps:.3f}" for one in acceptance.per_position)
    return text
