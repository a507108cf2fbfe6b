"""The settings of an audit of an engine; this module loads no numpy, so that `--help` lists them at once."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, TypedDict

from otspec.auditing.settings import SEED, SHARE, Between, check_settings, count, setting

MOST_TEXTS, LONGEST = 10_000_000, 4096


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

    Parameters
    ----------
    texts : int
        Budget: texts with drafts, of all prompts and samplings together.
    length : int
        Tokens of each text.
    batch : int
        Requests that the engine is given at once, at most.
    seed : int
        Other seeds give other texts.
    alpha : float
        Bound on the probability that a lossless engine is called "not lossless", all tests together.
    confidence : float
        Probability that all bounds of total variations hold together.
    control_bias : float
        Total variation by which each token of the control is off, where the exact law is known.
    tolerance : float
        By how much logits and log-probabilities of the engine may be off by rounding.
    greedy_length : int
        Tokens of the greedy texts that are compared with drafts and without.
    all_texts : bool
        Draw the whole budget even if a bias was found before: the bounds become tighter.

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

    texts: int = setting(
        4000, "Budget: texts with drafts, of all prompts and samplings together.", count(MOST_TEXTS), "count"
    )
    length: int = setting(4, "Tokens of each text.", count(LONGEST), "count")
    batch: int = setting(256, "Requests that the engine is given at once, at most.", count(MOST_TEXTS), "count")
    seed: int = setting(0, "Seed; other seeds give other texts.", SEED, "seed")
    alpha: float = setting(1e-3, "Bound on the probability that a lossless engine is called not lossless.", SHARE)
    confidence: float = setting(0.99, "Probability that all bounds of total variations hold together.", SHARE)
    control_bias: float = setting(0.05, "Total variation by which each token of the control is off.", SHARE)
    tolerance: float = setting(
        0.01, "By how much logits and log-probabilities may be off by rounding.", Between(0, math.inf)
    )
    greedy_length: int = setting(32, "Tokens of the greedy texts.", count(LONGEST), "count")
    all_texts: bool = setting(False, "Draw the whole budget even if a bias was found: the bounds become tighter.", bool)

    def __post_init__(self) -> None:
        check_settings(self)

    def drawing(self) -> dict[str, Any]:
        """What the texts depend on; all else may be another when an audit goes on."""
        return {name: getattr(self, name) for name in ("length", "batch", "seed", "greedy_length")}

    def reported(self) -> dict[str, Any]:
        """All settings by name."""
        return asdict(self)
