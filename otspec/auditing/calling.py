"""Calling a rule of the user's: when a text begins, until the time is up, and whatever it raises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from otspec.auditing.answers import Invalid
from otspec.auditing.cases import Case
from otspec.auditing.deadline import Deadline
from otspec.laws import IntArray


class CalledRule:
    """A rule of any form, as an audit calls it.

    Parameters
    ----------
    call : callable
        The user's rule, or an object that does its work.
    deadline : Deadline
        The rule is not called after it.
    """

    def __init__(self, call: Any, deadline: Deadline) -> None:
        self.mutations: dict[str, Case] = {}
        """The arguments that the rule wrote to, and the case on which that was first seen."""
        self._call = call
        self._deadline = deadline

    def start(self, rng: np.random.Generator) -> None:
        """Tell the rule that a new text begins, if it has a method `start`."""
        start(self._call, rng)

    def _try(self, call: Callable[[], Any], drafts: IntArray | None, case: Case | None) -> Any:
        """What a call returns.

        Raises
        ------
        Invalid
            If it raises.
        OutOfTime
            If the time is up; the call is then not made.
        """
        self._deadline.check()
        try:
            return call()
        except Exception as error:
            raise Invalid(f"raises {described(error)}", drafts, case) from error


def start(call: Any, rng: np.random.Generator) -> None:
    """Tell a rule or a drafter that a new text begins, if it has a method `start`."""
    begin = getattr(call, "start", None)
    if begin is not None:
        begin(rng)


def described(error: Exception) -> str:
    """An error by its type and message."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def label_of(rule: Any) -> str:
    """The name of a rule in a report."""
    if isinstance(rule, str):
        return rule
    name = getattr(rule, "__qualname__", None)
    return f"{rule.__module__}:{name}" if name else type(rule).__name__
