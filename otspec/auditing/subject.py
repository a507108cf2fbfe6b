"""What an audit is of: a rule, the drafts that it verifies, and the cases that it is tried on.

`otspec.auditing.driver` audits any subject.  There are two: `otspec.auditing.positions` has the drafts of one position,
`otspec.auditing.paths` has trees of drafted tokens.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from otspec.auditing.calling import CalledRule
from otspec.auditing.cases import Case
from otspec.auditing.outcome import Figures
from otspec.auditing.tally import Tally
from otspec.laws import FloatArray

TEXT = 2
"""Tokens, or steps, of a text: enough to see that one depends on the other."""

C = TypeVar("C", bound=Case)


class Wording(NamedTuple):
    """How a report speaks of a subject, all of it parts of sentences."""

    case: str
    """What a case is called."""
    right: str
    """What is true of a lossless rule; "on every case" follows."""
    right_so_far: str
    """The same of the cases that were enumerated when the time was up; their number replaces ``{done}``."""
    off: str
    """What is true of a biased rule; "by a total variation" follows."""


class Enumerated(NamedTuple, Generic[C]):
    """One case, enumerated."""

    case: C
    figures: Figures
    output: FloatArray
    """Exact law of the output, of the shape of the case's `p`."""


class Sampler(Protocol):
    """A rule and its drafts, ready to be drawn from; both go on where they stopped."""

    simultaneous: bool
    """Whether texts are verified in one batch, step by step, rather than one after the other."""

    def draw(self, cases: Sequence[Any], texts: int) -> Sequence[Any]:
        """So many texts of each case, as its tally takes them.

        Raises
        ------
        Invalid
            If the rule gives no output, or the drafter gives no drafts.
        OutOfTime
            If the time is up.
        """


class Subject(ABC, Generic[C]):
    """A rule with its drafts, and how it is judged on a case: exactly and by draws."""

    wording: ClassVar[Wording]

    rule: CalledRule
    label: str
    """Name of the rule in the report."""
    form: str
    """Name of the form in which the rule is called."""
    drafts: str
    """The drafts, in words."""
    given: Sequence[C]
    """The cases that the user brought, checked; where there are none, the audit tries its own."""
    own_drafter: bool = False
    """Whether the drafts come from a function of the user's, so that they are tested against the declared law."""

    @property
    @abstractmethod
    def has_law(self) -> bool:
        """Whether the output law can be enumerated: the rule gives its law, and the drafts have a known one."""

    @property
    @abstractmethod
    def not_enumerable(self) -> str:
        """Why an exact audit is not possible, and what would make it so."""

    @abstractmethod
    def cases_to_enumerate(self, seed: int) -> Sequence[C]:
        """The audit's own cases for an exact audit."""

    @abstractmethod
    def cases_to_sample(self, seed: int) -> Sequence[C]:
        """The audit's own cases for a sampled audit: fewer, because each takes thousands of draws."""

    def prepare(self, case: C) -> None:
        """Make the rule ready for a case; most rules need nothing.

        Raises
        ------
        Refused
            If the rule says that it does not take the case.
        Invalid
            If it raises anything else.
        """

    @abstractmethod
    def enumerate(self, case: C) -> Enumerated[C]:
        """Sum the output law over all drafts of a case.

        Raises
        ------
        Invalid
            If the rule gives no law for some drafts.
        """

    @abstractmethod
    def sampler(self, rng: np.random.Generator) -> Sampler:
        """The rule with its drafts, ready to be drawn from."""

    @abstractmethod
    def tally(self, case: C, simultaneous: bool) -> Tally:
        """A count of the draws on one case; `simultaneous` is the sampler's."""
