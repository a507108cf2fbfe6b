"""What numbers show of a claim: the worst instance found, the verdict, and a counterexample to replay."""

from __future__ import annotations

import math
import zlib
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from otspec.errors import ProblemError
from otspec.proofs_check.claims import Claim, Verdict
from otspec.proofs_check.search import Instance

ENOUGH = 1000
"""Trials in which every claim that fails is refuted, from the seeds that were tried; `otspec claims` takes as many."""


@dataclass(frozen=True)
class Evidence:
    """What the search for a contradiction found.

    Examples
    --------
    >>> from otspec.proofs_check import CLAIMS, check
    >>> evidence = check(CLAIMS["own-interval-lossless"], trials=20)
    >>> evidence.as_expected, sorted(evidence.witness)  # the witness is the instance of the smallest margin
    (True, ['n', 'p', 'q'])
    """

    claim: Claim
    trials: int
    """Instances attempted."""
    seed: int
    worst: float
    """Smallest margin seen; NaN counts as the smallest of all."""
    witness: Instance
    """The instance of the smallest margin, in the fewest digits that still contradict where it does."""
    tightest: float | None = None
    """Largest ratio of left to right side seen, where the claim has one."""
    counterexample: float | None = None
    """Margin of the claim's known counterexample."""
    few: bool = False
    """Whether fewer than `ENOUGH` trials were requested."""

    @property
    def verdict(self) -> Verdict:
        """The verdict of the search alone."""
        if self.claim.contradicted_by(self.worst):
            return Verdict.FAILS
        return Verdict.HIDDEN if self.claim.assumption else Verdict.HOLDS

    @property
    def as_expected(self) -> bool:
        """Whether the search finds what we expect, and a known counterexample still contradicts."""
        return self._still_contradicted and self.verdict is self.claim.expected

    @property
    def undecided(self) -> bool:
        """Whether a claim that we know to be false was not refuted, for want of trials."""
        missed = self.claim.expected is Verdict.FAILS and self.verdict is not Verdict.FAILS
        return self.few and missed and self._still_contradicted

    @property
    def _still_contradicted(self) -> bool:
        return self.counterexample is None or self.claim.contradicted_by(self.counterexample)

    @property
    def in_words(self) -> str:
        """The verdict, and whether it is news."""
        if self.undecided:
            return f"not refuted in {self.trials} trials"
        return self.verdict.value if self.as_expected else f"{self.verdict.value}: NOT AS EXPECTED"


def check(claim: Claim, trials: int, seed: int = 0) -> Evidence:
    """Search for a contradiction to a claim.

    Parameters
    ----------
    claim : Claim
    trials : int
        Instances of a cheap claim to attempt; one of cost c gets the c-th part, and at least one.
    seed : int
        The same seed gives a claim the same instances, whatever else is checked.

    Examples
    --------
    >>> from otspec.proofs_check import CLAIMS, check
    >>> evidence = check(CLAIMS["own-interval-lossless"], trials=20, seed=0)
    >>> evidence.verdict.value
    'holds'
    """
    rng = np.random.default_rng([seed, zlib.crc32(claim.id.encode())])
    attempts: list[float] = []
    worst: tuple[float, Instance] | None = None
    tightest: float | None = None

    def attempt(instance: Instance) -> float:
        nonlocal worst, tightest
        margin = height = claim.margin_of(instance)
        if worst is None or not (margin >= worst[0] or math.isnan(worst[0])):
            worst = margin, instance
        if claim.tightness is not None:
            ratio = float(claim.tightness(**instance))
            tightest = ratio if tightest is None else max(tightest, ratio)
            if not claim.contradicted_by(margin):
                height = 1.0 - ratio  # a margin of 0 where both sides vanish leads nowhere
        attempts.append(margin)
        return -math.inf if math.isnan(height) else height

    claim.search(claim.draw, attempt, max(1, trials // claim.cost), rng)
    assert worst is not None, f"the search of {claim.id} attempted nothing"
    margin, witness = worst
    if claim.contradicted_by(margin):
        witness = simplest(claim, witness)
    counterexample = None if claim.counterexample is None else claim.margin_of(claim.counterexample)
    return Evidence(
        claim, len(attempts), seed, claim.margin_of(witness), witness, tightest, counterexample, trials < ENOUGH
    )


def simplest(claim: Claim, instance: Instance) -> Instance:
    """The instance with its numbers in the fewest digits that still contradict the claim."""
    for digits in range(1, 8):
        rounded = {name: _rounded(value, digits) for name, value in instance.items()}
        with np.errstate(all="ignore"), suppress(ProblemError):  # rounded so far that it is not a problem any more
            if claim.margin_of(rounded) < -claim.tol:
                return rounded
    return instance


def _rounded(value: Any, digits: int) -> Any:
    if isinstance(value, float):
        return round(value, digits)
    if not (isinstance(value, np.ndarray) and value.dtype.kind == "f"):
        return value
    rounded = np.round(value, digits)
    if value.ndim and value.size and np.allclose(value.sum(axis=-1), 1.0) and (value >= 0).all():
        largest = value.argmax(axis=-1)[..., None]
        rest = rounded.sum(axis=-1, keepdims=True) - np.take_along_axis(rounded, largest, -1)
        np.put_along_axis(rounded, largest, np.round(1.0 - rest, digits), -1)  # laws stay laws
    return rounded
