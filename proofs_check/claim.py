"""A claim: a statement that numbers can contradict, and what we expect them to say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from enum import StrEnum
from typing import Any

from otspec.proofs_check.search import RANDOM, Draw, Instance, Search


class Verdict(StrEnum):
    """What numbers say of a claim.

    Examples
    --------
    >>> from otspec.proofs_check import CLAIMS, Verdict
    >>> failing = [claim for claim in CLAIMS.values() if claim.expected is Verdict.FAILS]
    >>> all(claim.remedy for claim in failing)  # what is true instead
    True
    """

    HOLDS = "holds"
    """On all that was tried.  Evidence, not proof."""
    HIDDEN = "holds under a hidden assumption"
    """On all that was tried and meets an assumption that the source does not state; not without it."""
    FAILS = "fails"
    """There is a counterexample that meets every stated hypothesis."""


@dataclass(frozen=True)
class Mutation:
    """A claim said too strongly, and so false: a search that cannot refute it would not refute a false claim either.

    Examples
    --------
    >>> import numpy as np
    >>> from otspec.proofs_check import Claim, Mutation, challenges
    >>> from otspec.proofs_check.instances import pair
    >>> def margin(p, q, factor=1.0):
    ...     return np.minimum(p, q).sum() - factor * p @ q
    >>> twice = Mutation("Twice as often.", lambda p, q: margin(p, q, factor=2.0))
    >>> claim = Claim("luck", "Sampling is at least as good as luck.", "my notes", pair, margin, mutations=(twice,))
    >>> [found.refuted for found in challenges(claim, trials=100)]
    [True]
    """

    statement: str
    """What is changed: half the constant, a term less, another index."""
    margin: Callable[..., float]
    """How clearly it holds on an instance of the claim, as for the claim."""


@dataclass(frozen=True)
class Claim:
    """A statement with its hypotheses, a way to make instances of it, and a margin that tells whether it holds.

    Examples
    --------
    >>> import numpy as np
    >>> from otspec.proofs_check import Claim, check
    >>> from otspec.proofs_check.instances import pair
    >>> def margin(p, q):
    ...     return np.minimum(p, q).sum() - p @ q
    >>> claim = Claim("surer-than-luck", "Sampling accepts at least as often as luck.", "my notes", pair, margin)
    >>> check(claim, trials=50, seed=0).verdict.value
    'holds'
    """

    id: str
    statement: str
    source: str
    """Key of references.bib with the theorem's number, or `otspec`."""
    draw: Draw
    """A random instance that meets the hypotheses, and the assumption where there is one."""
    margin: Callable[..., float]
    """How clearly the claim holds on an instance, called as ``margin(**instance)``.

    Right minus left side of an inequality, minus the error of an equality; negative or NaN is a contradiction.
    """
    _: KW_ONLY
    variant_of: str = ""
    """Of a statement of ours about a source, which the source does not make itself: what it sharpens, mends, alters or
    stands beside, a claim by its id or else a passage.  Empty for what a source says."""
    hypotheses: str = ""
    tol: float = 1e-12
    """Margins down to -tol are rounding."""
    search: Search = RANDOM
    """How instances are looked for."""
    cost: int = 1
    """How many trials of a cheap claim one trial of this one takes."""
    tightness: Callable[..., float] | None = None
    """Left over right side of an inequality, to see how sharp it is: 1 where it is attained."""
    expected: Verdict = Verdict.HOLDS
    assumption: str = ""
    """What the source leaves unsaid, for HIDDEN."""
    counterexample: Mapping[str, Any] | None = None
    """The smallest known: against the claim (FAILS), or without the assumption (HIDDEN)."""
    remedy: str = ""
    """What is true instead, for FAILS."""
    remark: str = ""
    """What else a reader should know: a stronger statement that is proved, how sharp it is, what it means."""
    mutations: tuple[Mutation, ...] = ()
    """False neighbours of the claim, which its search has to refute."""
    unmutated: str = ""
    """Why there is none, of a claim that is expected to hold."""

    def __post_init__(self) -> None:
        """Insist that a claim that does not simply hold says why, and how to see it.

        Raises
        ------
        ValueError
            If a part is missing, or one is given that the expected verdict has no use for, or that others exclude.
        """
        needed = {
            Verdict.HOLDS: set(),
            Verdict.HIDDEN: {"assumption", "counterexample"},
            Verdict.FAILS: {"remedy", "counterexample"},
        }[self.expected]
        present = {part for part in ("assumption", "counterexample", "remedy") if getattr(self, part)}
        if present != needed:
            raise ValueError(
                f"claim {self.id!r} is expected to be {self.expected.value!r}, which goes with {sorted(needed)}, "
                f"and has {sorted(present)}"
            )
        if self.mutations and self.unmutated:
            raise ValueError(f"claim {self.id!r} has mutations, and says why it has none; keep one of the two")

    @property
    def needs_mutation(self) -> bool:
        """Whether nothing false is tried here yet: a claim that fails is refuted itself."""
        return self.expected is not Verdict.FAILS and not self.mutations and not self.unmutated

    def margin_of(self, instance: Instance) -> float:
        """The margin on one instance."""
        return float(self.margin(**instance))

    def contradicted_by(self, margin: float) -> bool:
        """Whether a margin is below what rounding explains; NaN is."""
        return not margin >= -self.tol


@dataclass(frozen=True)
class Unchecked:
    """A statement that this package does not check, and why.

    Examples
    --------
    >>> from otspec.proofs_check import SOURCES
    >>> left = [passage for source in SOURCES for passage in source.unchecked]
    >>> print(f"{left[0].source}: {left[0].reason[:36]}...")
    thomas2025global, section 5.1: Hardness is not a matter of numbers....
    """

    statement: str
    source: str
    reason: str


@dataclass(frozen=True)
class Source:
    """A paper, or another text, with its claims.

    Examples
    --------
    >>> from otspec.proofs_check import SOURCES
    >>> source = SOURCES[0]
    >>> print(source.cite, len(source.claims) > 10, source.claims[0].id)
    thomas2025global True gr-equation-2
    """

    title: str
    cite: str
    """Key of references.bib, or `otspec`."""
    claims: tuple[Claim, ...]
    unchecked: tuple[Unchecked, ...] = ()
