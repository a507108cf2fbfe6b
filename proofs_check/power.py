"""Whether a search would notice: mutations of claims, which are false, have to be refuted by the same search."""

from __future__ import annotations

import math
import zlib
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from otspec.proofs_check.claims import Claim, Mutation
from otspec.proofs_check.evidence import check
from otspec.proofs_check.search import Instance

CLEAR = 10.0
"""A mutation is refuted by margins below this many tolerances of its claim: rounding refutes nothing."""


@dataclass(frozen=True)
class Challenge:
    """What the search of a claim found against one of its mutations.

    Examples
    --------
    >>> from otspec.proofs_check import CLAIMS, challenges
    >>> for found in challenges(CLAIMS["dynaspec-lemma-1"], trials=200):
    ...     print(found.mutation.statement, found.refuted)
    It is at most 0.95 p(S). True
    """

    claim: Claim
    mutation: Mutation
    trials: int
    """Instances attempted, the last of which refutes the mutation if any does."""
    seed: int
    worst: float
    """Smallest margin seen."""
    witness: Instance
    """Its instance."""
    tightest: float | None = None
    """Largest ratio of left to right side of the claim itself that its own search saw, where it has one."""

    @property
    def refuted(self) -> bool:
        """Whether the mutation is found out."""
        return refutes(self.claim, self.worst)


def refutes(claim: Claim, margin: float) -> bool:
    """Whether a margin contradicts a mutation of the claim beyond doubt; NaN does not."""
    return margin < -CLEAR * claim.tol


def challenges(claim: Claim, trials: int, seed: int = 0) -> list[Challenge]:
    """Search for instances that refute each mutation of a claim, and for how tight the claim is.

    Parameters
    ----------
    claim : Claim
    trials, seed
        As in `check`.

    Examples
    --------
    >>> from otspec.proofs_check import CLAIMS, challenges
    >>> found = challenges(CLAIMS["dynaspec-lemma-1"], trials=200)  # the claim, made too strong in some ways
    >>> all(challenge.refuted for challenge in found)  # so that the search would find a claim of its kind false, too
    True
    """
    if not claim.mutations:
        return []
    tightest = None if claim.tightness is None else check(claim, trials, seed).tightest
    return [replace(challenge(claim, mutation, trials, seed), tightest=tightest) for mutation in claim.mutations]


class _Refuted(Exception):
    """Ends a search."""


def challenge(claim: Claim, mutation: Mutation, trials: int, seed: int = 0) -> Challenge:
    """Search for an instance that refutes a mutation, and stop at the first.

    Parameters
    ----------
    claim, mutation : Claim, Mutation
    trials : int
        As in `check`: instances of a cheap claim; one of cost c gets the c-th part, and at least one.
    seed : int
        The draws are those on which `check` tries the claim itself.
    """
    rng = np.random.default_rng([seed, zlib.crc32(claim.id.encode())])
    count = 0
    worst: tuple[float, Instance] = math.inf, {}

    def attempt(instance: Instance) -> float:
        nonlocal count, worst
        with np.errstate(all="ignore"):
            margin = float(mutation.margin(**instance))
        count += 1
        if margin < worst[0] or math.isnan(worst[0]) or count == 1:
            worst = margin, dict(instance)
        if refutes(claim, margin):
            raise _Refuted
        return math.inf if math.isnan(margin) else margin

    with suppress(_Refuted):
        claim.search(claim.draw, attempt, max(1, trials // claim.cost), rng)
    return Challenge(claim, mutation, count, seed, *worst)
