"""The cases of a position: the instance, the law that its drafts come from, and the law that the rule is shown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from otspec.auditing.outcome import Figures
from otspec.auditing.rules.forms import arguments_of
from otspec.auditing.rules.instances import Instance
from otspec.certificate import upper_bound
from otspec.errors import ProblemError
from otspec.laws import FloatArray, IntArray, as_float64, as_law
from otspec.problem import Problem
from otspec.schemes import IID, DraftScheme
from otspec.schemes.catalogue import Builder, named_schemes

MAX_TUPLES = 5_000
"""Tuples of drafts of a position that are listed; a rule is called for each."""

MAX_COMPARED = 1024
"""Drafts of a drafter are compared with the declared law tuple by tuple up to this many tuples, else by their first."""

Drafter = Callable[[FloatArray, int, np.random.Generator], Any]
"""A function of (q, n, rng) that draws a tuple of drafts, shape (n,)."""


class Unsuitable(ProblemError):
    """A scheme cannot draw so many drafts from a law."""


@dataclass(frozen=True, eq=False)
class PositionCase:
    """An instance, checked, with its drafts."""

    name: str
    p: FloatArray
    q: FloatArray
    shown: FloatArray
    declared: DraftScheme
    """The draft law declared to the rule: the scheme of `shown`."""
    drafted: DraftScheme | None
    """The law that the drafts come from; None for a drafter of the user's, whose law is not known."""

    outputs: ClassVar[str] = "tokens"

    def spelt(self, output: int) -> str:
        """The number of a token."""
        return str(output)

    @cached_property
    def vocab(self) -> int:
        """Number of tokens V."""
        return self.p.size

    @cached_property
    def n(self) -> int:
        """Drafts per position."""
        return self.declared.n

    length: ClassVar[int] = 1

    @property
    def after(self) -> tuple[FloatArray, FloatArray]:
        """Target and draft law, both of shape (1, V)."""
        return self.p[None], np.atleast_2d(self.q).mean(axis=0, keepdims=True)

    @property
    def enumerable(self) -> bool:
        """Whether the drafts have a law whose tuples are few enough to be listed."""
        return self.drafted is not None and self.drafted.support_size() <= MAX_TUPLES

    @cached_property
    def optimum(self) -> float | None:
        """alpha* of the drafts, or an upper bound where it would take long; None if their law is not known."""
        return None if self.drafted is None else self._bound(self.drafted)

    @cached_property
    def optimum_iid(self) -> float | None:
        """alpha* of as many i.i.d. drafts; None where each draft has a law of its own."""
        return self._bound(IID(self.q, self.n)) if self.q.ndim == 1 else None

    def _bound(self, scheme: DraftScheme) -> float:
        return min(upper_bound(Problem(self.p, scheme)), 1.0)

    @cached_property
    def drafts_tv(self) -> float:
        """Total variation of the law that the drafts come from to the declared one."""
        if self.declared is self.drafted:
            return 0.0
        assert self.drafted is not None
        drafts, probabilities = self.drafted.support()
        return float(np.maximum(probabilities - self.declared.prob(drafts), 0.0).sum())

    @cached_property
    def _by_tuple(self) -> dict[tuple[int, ...], int] | None:
        """Row of each declared tuple, if they are few."""
        if self.declared.support_size() > MAX_COMPARED:
            return None
        return {tuple(row): place for place, row in enumerate(self.declared.support().drafts.tolist())}

    @cached_property
    def declared_law(self) -> FloatArray | None:
        """Declared law of the tuples, or of the first draft, and 0 for others; None where the audit drafts itself."""
        if self.drafted is not None:
            return None
        law = self.declared.first_draft() if self._by_tuple is None else self.declared.support().probabilities
        if law is None:
            raise ProblemError(
                f"the declared {type(self.declared).__name__} has more than {MAX_COMPARED} tuples and does "
                "not know the law of its first draft, so a drafter cannot be compared with it; take fewer tokens"
            )
        return np.append(law / law.sum(), 0.0)

    def places_of(self, drafts: IntArray) -> IntArray:
        """The place of drafts, shape (texts, n), in `declared_law`; shape (texts,)."""
        if self._by_tuple is None:
            return drafts[:, 0]
        other = len(self._by_tuple)
        return np.array([self._by_tuple.get(tuple(row), other) for row in drafts.tolist()], dtype=np.int64)

    def figures(self, measured: Mapping[str, Any]) -> Figures:
        """The figures of this position, from what was measured."""
        about: dict[str, Any] = {"name": self.name, "vocab": self.vocab, **measured}
        return Figures(optimum=self.optimum, optimum_iid=self.optimum_iid, **about)


@dataclass(frozen=True, eq=False)
class Drafting:
    """How drafts are made, and what is declared to the rule."""

    scheme: Builder
    """Makes the declared law, from the q that the rule is shown."""
    drafted: Builder | None
    """Makes the true law, from q; None for a drafter of the user's."""
    drafter: Drafter | None
    """The drafter of the user's, if there is one."""
    shown: Callable[[FloatArray], Any] | None
    """Makes the q that the rule is shown from the true q, both of shape (V,); None if they are the same."""
    label: str
    """The drafts, in words."""
    rows: bool
    """Whether the scheme takes a q for each draft."""

    @classmethod
    def of(cls, scheme: Any, drafter: Any, shown: Callable[[FloatArray], Any] | None) -> Drafting:
        """Read the arguments of `otspec.audit`."""
        declared, label = _builder("scheme", scheme)
        if shown is not None and not callable(shown):
            raise ProblemError(f"shown is {shown!r}; pass a function of q, or None")
        rows = isinstance(scheme, str) and scheme == "independent"
        if drafter is None:
            return cls(declared, declared, None, shown, label, rows)
        if callable(drafter) and _draws(drafter):
            return cls(declared, None, drafter, shown, f"{_name(drafter)}, declared {label}", rows)
        drafted, true_label = _builder("drafter", drafter)
        return cls(declared, drafted, None, shown, f"{true_label}, declared {label}", rows)

    def case(self, instance: Instance, n: int) -> PositionCase:
        """Check an instance, and set its drafts up."""
        p = as_law("p", instance.p)
        q = _laws("q", instance.q)
        shown = q if self.shown is None else _laws("shown(q)", _made("shown", self.shown, q.copy()))
        declared = _scheme(self.scheme, shown, n)
        if self.drafted is self.scheme and self.shown is None:
            drafted: DraftScheme | None = declared
        else:
            drafted = None if self.drafted is None else _scheme(self.drafted, q, n)
        for made in (declared, drafted):
            if made is not None and (made.n != n or made.vocab != p.size):
                raise ProblemError(
                    f"{type(made).__name__} draws {made.n} of {made.vocab} tokens; the audit is of n = {n}, "
                    f"and p has {p.size} tokens"
                )
        return PositionCase(instance.name, p, q, shown, declared, drafted)

    def cases(self, instances: Iterable[Instance], n: int) -> list[PositionCase]:
        """The cases of those instances that the scheme can draw n drafts from."""
        found, reason = [], ""
        for instance in instances:
            try:
                found.append(self.case(instance, n))
            except Unsuitable as error:  # such as five distinct drafts of three tokens
                reason = str(error)
        if not found:
            raise ProblemError(f"the drafts suit none of our instances, bring your own: {reason}")
        return found


def _draws(drafter: Callable[..., Any]) -> bool:
    """Whether it is called with (q, n, rng), and draws, rather than with (q, n), and makes a scheme."""
    arguments = arguments_of(drafter)
    return len(arguments.required) == 3 or (len(arguments.required) < 3 and arguments.positional[2:3] == ["rng"])


def _builder(argument: str, value: Any) -> tuple[Builder, str]:
    known = named_schemes()
    if isinstance(value, str):
        if value not in known:
            raise ProblemError(f"no draft law {value!r}; known: {', '.join(known)}, or pass a function of (q, n)")
        return known[value], value
    if callable(value):
        return value, _name(value)
    raise ProblemError(f"{argument} is {value!r}; pass one of {', '.join(known)}, or a function of (q, n)")


def _made(name: str, call: Callable[..., Any], *arguments: Any) -> Any:
    """What a function of the user's makes."""
    try:
        return call(*arguments)
    except ProblemError:
        raise
    except Exception as error:
        raise ProblemError(f"{name} raises {type(error).__name__}: {error}") from error


def _scheme(builder: Builder, q: FloatArray, n: int) -> DraftScheme:
    try:
        made = _made(_name(builder), builder, q, n)
    except ProblemError as error:
        if isinstance(error.__cause__, Exception):  # of the user's own, which no instance is to blame for
            raise
        raise Unsuitable(str(error)) from error
    if not isinstance(made, DraftScheme):
        raise ProblemError(f"{_name(builder)} returns {made!r}, which is not a draft scheme; see otspec.schemes")
    return made


def _name(call: Any) -> str:
    return getattr(call, "__name__", type(call).__name__)


def _laws(name: str, values: Any) -> FloatArray:
    """One law, or one for each draft."""
    array = as_float64(name, values)
    if array.ndim < 2:
        return as_law(name, array)
    rows = np.stack([as_law(f"{name}[{row}]", law) for row, law in enumerate(array)])
    rows.flags.writeable = False
    return rows
