"""Settings of audits: how much evidence is required, how fine it is, and how long an audit may take.

This module loads no numpy, so that `otspec audit --help` can list the settings at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

from otspec.errors import ProblemError
from otspec.settings import Range, Seed, check, range_of, types_of
from otspec.tolerances import TOL

Progress = Callable[[int, int], None]
"""Called with what is done and the most that there is to do: enumerated cases, draws, or texts."""

LONGEST = 1e12
"""Seconds, some 30 000 years: no limit is larger."""

Share = Annotated[float, Range(0, math.nextafter(1, 0), "it lies between 0 and 1", open=True)]
Distance = Annotated[float, Range(0, math.nextafter(1, 0), "it is a distance in [0, 1)")]
Seconds = Annotated[float, Range(0, LONGEST, "it is above 0 and at most 1e12, or None for no limit", open=True)]
Calls = Annotated[int, Range(1, 2**31 - 1, "pass an integer >= 1, at most 2,147,483,647", whole=True)]
Drafts = Annotated[int, Range(1, 1 << 12, "pass an integer >= 1, at most 4,096", whole=True)]
"""Thousands of calls are made, and drafted for."""


def check_settings(settings: Any) -> None:
    """Check a frozen dataclass by the types of its fields; integers of numpy become Python's.

    Raises
    ------
    ProblemError
        If a value is of the wrong type, or out of its range.
    """
    check(settings)
    kind_of: Any = type(settings)
    for name, kind in types_of(kind_of).items():
        value, range_ = getattr(settings, name), range_of(kind)
        if kind is bool and not isinstance(value, bool):
            raise ProblemError(f"{name} is {value!r}; pass True or False")
        if range_ is not None and range_.whole:
            object.__setattr__(settings, name, int(value))


def no_progress(done: int, most: int) -> None:
    """Ignore how far the audit has come."""


def check_progress(progress: Any) -> None:
    """Check that a function can be called with how far the audit has come.

    Raises
    ------
    ProblemError
        If it cannot be called.
    """
    if not callable(progress):
        raise ProblemError(f"progress is {progress!r}; pass a function of (done, most)")


class AuditOptions(TypedDict, total=False):
    """The keywords of `AuditSettings`, for functions that pass them on as ``**options: Unpack[AuditOptions]``.

    Examples
    --------
    >>> from typing import Unpack
    >>> import otspec
    >>> from otspec.auditing import AuditOptions
    >>> def audit_pairs(rule: str, **options: Unpack[AuditOptions]) -> otspec.Audit:
    ...     return otspec.audit(rule, "iid", 2, **options)
    >>> audit_pairs("kseq", method="exact").verdict.value
    'lossless'
    """

    seed: int
    alpha: float
    confidence: float
    resolution: float
    tol: float
    budget: int
    max_seconds: float | None
    method: str
    pairs: bool


@dataclass(frozen=True)
class AuditSettings:
    """The settings of an audit; `otspec.audit` and `otspec.audit_paths` take all of them but `n` as keywords.

    Raises
    ------
    ProblemError
        If a value is of the wrong type, or out of its range.

    Examples
    --------
    >>> from otspec.auditing import AuditSettings
    >>> AuditSettings(3, resolution=0.1).alpha
    0.001
    >>> AuditSettings(3, alpha=2)
    Traceback (most recent call last):
        ...
    otspec.errors.ProblemError: alpha is 2; it lies between 0 and 1
    """

    n: Drafts
    # Drafts of a position, or drafted paths of a tree: both functions set it from their other arguments.
    seed: Seed = 0
    """Seed of all random numbers; the same seed gives the same audit."""
    alpha: Share = 1e-3
    """Bound on the probability that a lossless rule is called not lossless."""
    confidence: Share = 0.99
    """Probability that all intervals of the total variation hold together."""
    resolution: Share = 0.05
    """Total variation to which the law of a sampled rule has to be known.

    The audit calls it "lossless" only then.
    """
    tol: Distance = TOL
    """Total variation by which the law of an enumerated rule may be off.

    The total of a law that the rule gives may be off 1 by as much.
    """
    budget: Calls = 1_000_000
    """Largest number of calls of a rule that is sampled."""
    max_seconds: Seconds | None = None
    """Seconds after which the audit stops and reports how far it came; the clock is read between calls.

    The verdict is then "inconclusive", unless a bias was found before.  A call that does not return is not interrupted.
    """
    method: str = "auto"
    """The method: exact, sampled, or auto, which is exact where that is possible."""
    pairs: bool = True
    """Test whether outputs are independent of those before: the last, and some up to 1024 draws back."""

    def __post_init__(self) -> None:
        check_settings(self)
        if not (isinstance(self.method, str) and self.method in ("auto", "exact", "sampled")):
            raise ProblemError(f"method is {self.method!r}; known: auto, exact, sampled")

    @classmethod
    def of(cls, call: str, n: int, options: AuditOptions) -> AuditSettings:
        """The settings from the keywords of a call of that name; a keyword that is none is a TypeError."""
        for name in options:
            if name not in AuditOptions.__annotations__:
                known = ", ".join(AuditOptions.__annotations__)
                raise TypeError(f"{call}() got an unexpected keyword argument {name!r}; the settings are {known}")
        return cls(n, **options)

    def reported(self) -> dict[str, Any]:
        """What a result repeats of the settings: those that its figures depend on."""
        names = ("n", "seed", "alpha", "confidence", "resolution", "tol", "budget", "max_seconds")
        return {name: getattr(self, name) for name in names}
