"""What an audit of an engine comes to, as plain records."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from otspec.auditing.engines.engine import Acceptance
from otspec.auditing.outcome import Conclusion


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
