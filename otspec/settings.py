"""A setting is a field of a dataclass: its type says what it may be, and the docstring after it what it does.

>>> from dataclasses import dataclass
>>> from otspec.settings import Count, check
>>> @dataclass(frozen=True)
... class Tree:
...     paths: Count = 1
...     '''How many paths are drafted.'''
>>> check(Tree(paths=0))
Traceback (most recent call last):
    ...
otspec.errors.ProblemError: paths is 0; pass an integer >= 1

Commands, checks and pages are made from these, so that nothing is written twice.  This module loads no numpy, and a
command can list its options at once.
"""

from __future__ import annotations

import ast
import inspect
import math
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from itertools import pairwise
from numbers import Integral, Real
from typing import Annotated, Any, NamedTuple, get_args, get_type_hints

from otspec.errors import ProblemError


@dataclass(frozen=True)
class Range:
    """The numbers that a setting takes, from `least` to `most`; `least` itself is not among them if it is `open`."""

    least: float
    most: float
    rule: str
    """How an error message states it."""
    whole: bool = False
    open: bool = False

    def __contains__(self, value: object) -> bool:
        if isinstance(value, bool) or not isinstance(value, Integral if self.whole else Real):
            return False
        number: Any = value  # as it is: floats round large integers
        above = number > self.least if self.open else number >= self.least
        return bool(above and number <= self.most and number < math.inf)


LARGEST_SEED = 2**62
"""Every generator of random numbers takes it, and the next ones."""
COUNT = Range(1, math.inf, "pass an integer >= 1", whole=True)
Count = Annotated[int, COUNT]
Whole = Annotated[int, Range(0, math.inf, "pass an integer >= 0", whole=True)]
CountOrAll = Annotated[int, Range(0, math.inf, "pass an integer >= 1, or 0 to keep all", whole=True)]
Seed = Annotated[int, Range(0, LARGEST_SEED, "pass one integer, 0 or more and at most 2**62", whole=True)]
Temperature = Annotated[float, Range(0, math.inf, "it is finite and >= 0, 0 for greedy decoding")]
Mass = Annotated[float, Range(0, 1, "it is a probability in (0, 1]", open=True)]
Probability = Annotated[float, Range(0, 1, "it is a probability in [0, 1]")]


class _Names(dict[str, Any]):
    """The names of a module; those that type checkers alone import stand for anything."""

    def __missing__(self, name: str) -> Any:
        return Any


@cache
def types_of(settings: type) -> Mapping[str, Any]:
    """The types of a dataclass's fields, by name."""
    names = _Names()
    for one in reversed(settings.__mro__):
        names.update(vars(sys.modules[one.__module__]))
    found = get_type_hints(settings, localns=names, include_extras=True)
    return {one.name: found[one.name] for one in fields(settings)}


@cache
def docstrings_of(settings: type) -> Mapping[str, str]:
    """The docstrings of a dataclass's fields, by name."""
    found: dict[str, str] = {}
    for one in reversed(settings.__mro__):
        if is_dataclass(one):
            for field, after in pairwise(_classes(one.__module__)[one.__qualname__].body):
                match field, after:
                    case ast.AnnAssign(target=ast.Name(name)), ast.Expr(ast.Constant(str(text))):
                        found[name] = inspect.cleandoc(text)
                    case ast.AnnAssign(target=ast.Name(name)), ast.Expr(ast.JoinedStr()):
                        raise TypeError(f"the docstring of {one.__qualname__}.{name} is no plain text")
    return found


def summary(text: str) -> str:
    """The first paragraph of a docstring in one line, without marks of code."""
    return " ".join(text.partition("\n\n")[0].replace("``", "").split())


@cache
def _classes(module: str) -> Mapping[str, ast.ClassDef]:
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {one.name: one for one in tree.body if isinstance(one, ast.ClassDef)}


def range_of(kind: Any) -> Range | None:
    """The range that a type allows, if it has one: ``Count`` or ``Count | None``."""
    for one in (kind, *get_args(kind)):
        for extra in getattr(one, "__metadata__", ()):
            if isinstance(extra, Range):
                return extra
    return None


def check(settings: Any) -> None:
    """Raise unless all numbers of a dataclass are in the range of their types; None is no number.

    Raises
    ------
    ProblemError
        Naming the value and the rule.
    """
    kind_of: Any = type(settings)
    for name, kind in types_of(kind_of).items():
        if (value := getattr(settings, name)) is not None:
            check_value(name, value, kind)


def check_value(name: str, value: Any, kind: Any) -> None:
    """Raise unless a number is in the range of a type, as `check` does.

    >>> from otspec.settings import Seed, check_value
    >>> check_value("seed", -1, Seed)
    Traceback (most recent call last):
        ...
    otspec.errors.ProblemError: seed is -1; pass one integer, 0 or more and at most 2**62
    """
    range_ = range_of(kind)
    if range_ is not None and value not in range_:
        raise ProblemError(f"{name} is {value!r}; {range_.rule}")


class Conflict(NamedTuple):
    """Two settings that are not passed together."""

    setting: str
    other: str
    rule: str
    """Why not."""
    way_out: str = "leave out one of the two"


def refuse(conflicts: Iterable[Conflict], passed: Mapping[str, Any], names: Mapping[str, str] | None = None) -> None:
    """Raise where two settings are passed that are not passed together; None and False count as not passed.

    Parameters
    ----------
    conflicts : iterable of Conflict
    passed : mapping
        From a name to what is passed.
    names : mapping, optional
        What an error calls a setting, where that is not its name.

    Raises
    ------
    ProblemError
        Naming both, the rule and the way out.
    """
    there = {name for name, value in passed.items() if value is not None and value is not False}
    for one in conflicts:
        if one.setting in there and one.other in there:
            both = ((names or {}).get(name, name) for name in (one.setting, one.other))
            raise ProblemError(f"{' and '.join(both)}: {one.rule}; {one.way_out}")
