"""A rule of the user's with its drafts, as an audit calls it: the two kinds of it are positions and paths."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from otspec.auditing.rules.answers import OutOfTime
from otspec.auditing.rules.case import TEXT, Case, Law, Sample
from otspec.auditing.settings import AuditSettings

C = TypeVar("C", bound=Case)

Begin = tuple[Callable[[], None], ...]
"""What is called where a text begins."""


class Wording(NamedTuple):
    """The words of a report on a subject, all of them parts of sentences."""

    case: str
    """What a case is called."""
    right: str
    """What is true of a lossless rule; "on every case" follows."""
    right_so_far: str
    """The same of the cases that were enumerated when the time was up; their number replaces ``{done}``."""
    off: str
    """What is true of a biased rule; "by a total variation" follows."""


class Subject(ABC, Generic[C]):
    """A rule of the user's with its drafts, and how it is judged on a case: by its law, and by draws."""

    wording: Wording
    simultaneous = False
    """Whether texts are verified in one batch, step by step, rather than one after the other."""

    form: str
    """Name of the form in which the rule is called."""
    drafts: str
    """The drafts, in words."""
    user_cases: Sequence[C]
    """The cases that the user brought, checked; where there are none, the audit tries its own."""
    has_law: bool
    """Whether the output law can be enumerated: the rule gives its law, and the drafts have a known one."""
    own_drafter = False
    """Whether the drafts come from a function of the user's, so that they are tested against the declared law."""

    def __init__(self, rule: Any, settings: AuditSettings) -> None:
        self.label = label_of(rule)
        self.mutations: dict[str, Case] = {}
        """The arguments that the rule wrote to, and the case on which that was first seen."""
        self._rng = np.random.default_rng(settings.seed)
        self._own = self._rng.spawn(1)[0]
        """Draws the drafts: a rule may spoil the generator that it is handed."""
        self._tol = settings.tol
        self._end = None if settings.max_seconds is None else time.monotonic() + settings.max_seconds

    @property
    @abstractmethod
    def not_enumerable(self) -> str:
        """Why an exact audit is not possible, and what would make it so."""

    @abstractmethod
    def cases(self, seed: int, *, sampled: bool) -> Sequence[C]:
        """The audit's own cases; fewer for a sampled audit, because each takes thousands of draws."""

    def prepare(self, case: C) -> None:
        """Make the rule ready for a case; most rules need nothing.

        Raises
        ------
        Refused
            If the rule refuses the case.
        Invalid
            If it raises anything else.
        """

    @abstractmethod
    def law(self, case: C) -> Law:
        """Sum the output law over all drafts of a case.

        Raises
        ------
        Invalid
            If the rule gives no law for some drafts.
        OutOfTime
            If the time is up.
        """

    @abstractmethod
    def sample(self, cases: Sequence[C], texts: int) -> list[Sample]:
        """So many texts of each case; the next call goes on where this one stopped.

        Raises
        ------
        Invalid
            If the rule gives no output, or the drafter gives no drafts.
        OutOfTime
            If the time is up.
        """

    def _check_time(self) -> None:
        """Raise `OutOfTime` if the time is up."""
        if self._end is not None and time.monotonic() >= self._end:
            raise OutOfTime

    def _starts(self, rule: Any, drafter: Any = None) -> Begin:
        """The methods `start`, of those of both that have one, called when a new text begins."""
        pairs = ((drafter, self._own), (rule, self._rng))
        return tuple(partial(call.start, rng) for call, rng in pairs if hasattr(call, "start"))

    def _answers(
        self,
        call: Callable[..., Any],
        arguments: Iterable[tuple[Any, ...]],
        begin: Begin = (),
        draft: Callable[[int], None] | None = None,
    ) -> tuple[list[Any], Exception | None]:
        """What calls return, one for each tuple of arguments, until one raises; and what that raised.

        Nothing else is done for a call, so that an audit takes little longer than the rule: `begin` is called where a
        text begins, `draft` with the number of each call before it, where a drafter of the user's drafts.  `OutOfTime`
        is raised where the time is up; the next call is then not made.
        """
        found: list[Any] = []
        for number, handed in enumerate(arguments):
            if begin and number % TEXT == 0:
                for start in begin:
                    start()
            if draft is not None:
                draft(number)
            if self._end is not None:
                self._check_time()
            try:
                answer = call(*handed)
                found.append(answer if isinstance(answer, int | np.integer) else _snapshot(answer))
            except Exception as error:
                return found, error
        return found, None


UNCHANGING = frozenset((int, float, bool, type(None), np.int64, np.float64))


def _snapshot(answer: Any) -> Any:
    """An answer as it is now: a rule may hand out one buffer again and again."""
    if isinstance(answer, tuple) and UNCHANGING.issuperset(map(type, answer)):
        return answer
    if isinstance(answer, np.ndarray):
        return answer.copy()
    if isinstance(answer, Iterator):
        return tuple(answer)
    try:
        return deepcopy(answer)
    except Exception:  # what cannot be copied is judged as it is
        return answer


def label_of(rule: Any) -> str:
    """The name of a rule in a report."""
    if isinstance(rule, str):
        return rule
    name = getattr(rule, "__qualname__", None)
    return f"{rule.__module__}:{name}" if name else type(rule).__name__
