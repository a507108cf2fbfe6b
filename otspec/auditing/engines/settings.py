"""The settings of an audit of an engine; this module loads no numpy, so that `--help` lists them at once."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Annotated, Any, TypedDict

from otspec.auditing.settings import Share, check_settings
from otspec.settings import Range, Seed

Texts = Annotated[int, Range(1, 10_000_000, "pass an integer >= 1, at most 10,000,000", whole=True)]
Length = Annotated[int, Range(1, 4096, "pass an integer >= 1, at most 4,096", whole=True)]


class EngineAuditOptions(TypedDict, total=False):
    """The keywords of `EngineAuditSettings`, for functions that pass them on."""

    texts: int
    length: int
    batch: int
    seed: int
    alpha: float
    confidence: float
    control_bias: float
    tolerance: float
    greedy_length: int
    all_texts: bool


@dataclass(frozen=True)
class EngineAuditSettings:
    """How much an audit of an engine draws, and what it concludes when.

    Raises
    ------
    ProblemError
        If a value is of the wrong type, or out of its range.

    Examples
    --------
    >>> from otspec.auditing.engines import EngineAuditSettings
    >>> EngineAuditSettings(texts=0)
    Traceback (most recent call last):
        ...
    otspec.errors.ProblemError: texts is 0; pass an integer >= 1, at most 10,000,000
    """

    texts: Texts = 4000
    """Budget: texts with drafts, of all prompts and samplings together."""
    length: Length = 4
    """Tokens of each text."""
    batch: Texts = 256
    """Requests that the engine is given at once, at most."""
    seed: Seed = 0
    """Seed; other seeds give other texts."""
    alpha: Share = 1e-3
    """Bound on the probability that a lossless engine is called not lossless, all tests together."""
    confidence: Share = 0.99
    """Probability that all bounds of total variations hold together."""
    control_bias: Share = 0.05
    """Total variation by which each token of the control is off, where the exact law is known."""
    tolerance: Annotated[float, Range(0, math.inf, "it is above 0", open=True)] = 0.01
    """By how much logits and log-probabilities may be off by rounding."""
    greedy_length: Length = 32
    """Tokens of the greedy texts that are compared with drafts and without."""
    all_texts: bool = False
    """Draw the whole budget even if a bias was found: the bounds become tighter."""

    def __post_init__(self) -> None:
        check_settings(self)

    def drawing(self) -> dict[str, Any]:
        """What the texts depend on; all else may be another when an audit goes on."""
        return {name: getattr(self, name) for name in ("length", "batch", "seed", "greedy_length")}

    def reported(self) -> dict[str, Any]:
        """All settings by name."""
        return asdict(self)
