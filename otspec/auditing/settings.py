"""Settings of audits: how much evidence is required, how fine it is, how long it may take; each checked by its field.

This module loads no numpy, so that `otspec audit --help` can list the settings at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from numbers import Integral, Real
from typing import Any, NamedTuple, TypedDict

from otspec.errors import ProblemError
from otspec.tolerances import TOL

Progress = Callable[[int, int], None]
"""Is called with what is done and the most that there is to do: cases that are enumerated, draws, or texts."""

LONGEST = 1e12
"""Seconds, some 30 000 years: no limit is larger."""

MOST_DRAFTS = 1 << 12
"""Drafts of a position, or paths of a tree: thousands of calls are made, and drafted for."""


class Between(NamedTuple):
    """The values that a number may have; both ends of a range of integers belong to it."""

    low: float = 0.0
    high: float = 1.0
    integer: bool = False
    low_too: bool = False
    """Whether a real number may be the lower end."""
    optional: bool = False
    """Whether it may be None."""

    def check(self, name: str, value: Any) -> None:
        """Check a value.

        Raises
        ------
        ProblemError
            If it is of the wrong type, or out of its range.
        """
        if value is None and self.optional:
            return
        if isinstance(value, bool) or not isinstance(value, Integral if self.integer else Real):
            raise ProblemError(
                f"{name} is {value!r}; pass {f'an integer >= {self.low}' if self.integer else 'a number'}"
            )
        number: Any = value
        if self.integer and not self.low <= number <= self.high:
            most = "" if math.isinf(self.high) else f", at most {self.high:,}"
            raise ProblemError(f"{name} is {value}; pass an integer >= {self.low}{most}")
        if not self.integer and not (self.low < number < self.high or (self.low_too and number == self.low)):
            ends = f"between {self.low:g} and {self.high:g}" + (f", or is {self.low:g}" if self.low_too else "")
            raise ProblemError(f"{name} is {value}; it lies {ends}{', or is None' if self.optional else ''}")


SHARE = Between()
SEED = Between(0, math.inf, integer=True)


def count(most: int) -> Between:
    """The range of a number of things."""
    return Between(1, most, integer=True)


def setting(
    default: Any, summary: str, allowed: Between | tuple[str, ...] | type[bool], kind: str | None = None
) -> Any:
    """A field that the command line offers as an option.

    Parameters
    ----------
    default : object
    summary : str
        The help text.
    allowed : Between, tuple of str or bool
        What it may be; `check_settings` holds it to that.
    kind : str, optional
        What the option takes, if not just its type.
    """
    return field(default=default, metadata={"help": summary, "kind": kind, "allowed": allowed})


def check_settings(settings: Any) -> None:
    """Check every `setting` of a frozen dataclass; integers of numpy become Python's.

    Raises
    ------
    ProblemError
        If a value is of the wrong type, or out of its range.
    """
    for one in fields(settings):
        value, allowed = getattr(settings, one.name), one.metadata.get("allowed")
        if isinstance(allowed, Between):
            allowed.check(one.name, value)
            if allowed.integer:
                object.__setattr__(settings, one.name, int(value))
        elif allowed is bool and not isinstance(value, bool):
            raise ProblemError(f"{one.name} is {value!r}; pass True or False")
        elif isinstance(allowed, tuple) and not (isinstance(value, str) and value in allowed):
            raise ProblemError(f"{one.name} is {value!r}; known: {', '.join(allowed)}")


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

    Parameters
    ----------
    n : int
        Drafts of a position, or drafted paths of a tree.  Both functions set it from their other arguments.
    seed : int
        Seed of all random numbers, at least 0.  Two audits with the same arguments and seed are the same.
    alpha : float
        Bound on the probability that the tests call a lossless rule "not lossless", in (0, 1).
    confidence : float
        Probability that all intervals of the total variation hold together, in (0, 1).
    resolution : float
        Total variation to p, in (0, 1), within which a rule that is sampled has to be known to lie before the audit
        calls it "lossless".
    tol : float
        Total variation to p, in [0, 1), up to which an enumerated law is "lossless".  The total of a law that the rule
        gives may be off 1 by as much.
    budget : int
        Largest number of calls of a rule that is sampled.
    max_seconds : float, optional
        Seconds after which the audit stops and says how far it came.  The verdict is then "inconclusive", unless a bias
        was found before.  The clock is read between calls of the rule; a call that does not return is not interrupted.
    method : str
        ``"exact"`` enumerates, ``"sampled"`` draws, ``"auto"`` enumerates where that is possible.
    pairs : bool
        Test also whether outputs are independent of those before: the last, and some up to 1024 draws back.

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

    n: int
    seed: int = setting(0, "Seed of all random numbers; the same seed gives the same audit.", SEED, "seed")
    alpha: float = setting(1e-3, "Bound on the probability that a lossless rule is called not lossless.", SHARE)
    confidence: float = setting(0.99, "Probability that all intervals of the total variation hold together.", SHARE)
    resolution: float = setting(0.05, "Total variation to which the law of a sampled rule has to be known.", SHARE)
    tol: float = setting(TOL, "Total variation that the law of an enumerated rule may be off.", Between(low_too=True))
    budget: int = setting(1_000_000, "Largest number of calls of a rule that is sampled.", count(2**31 - 1))
    max_seconds: float | None = setting(
        None,
        "Seconds after which the audit stops and says how far it came; the clock is read between calls.",
        Between(0, LONGEST, optional=True),
        "seconds",
    )
    method: str = setting(
        "auto",
        "The method: exact, sampled, or auto, which is exact where that is possible.",
        ("auto", "exact", "sampled"),
    )
    pairs: bool = setting(True, "Test whether consecutive outputs are independent.", bool)

    def __post_init__(self) -> None:
        count(MOST_DRAFTS).check("n", self.n)
        object.__setattr__(self, "n", int(self.n))
        check_settings(self)

    @classmethod
    def of(cls, call: str, n: int, options: AuditOptions) -> AuditSettings:
        """The settings from the keywords of a call.

        Parameters
        ----------
        call : str
            Name of the function that was called, for the error message.
        n : int
            Drafts of a position, or drafted paths of a tree.
        options : AuditOptions
            What was passed; all else has its default.

        Raises
        ------
        TypeError
            If a keyword is no setting.
        ProblemError
            If a value is of the wrong type, or out of its range.
        """
        for name in options:
            if name not in AuditOptions.__annotations__:
                known = ", ".join(AuditOptions.__annotations__)
                raise TypeError(f"{call}() got an unexpected keyword argument {name!r}; the settings are {known}")
        return cls(n, **options)

    def reported(self) -> dict[str, Any]:
        """What a result repeats of the settings: those that its figures depend on."""
        names = ("n", "seed", "alpha", "confidence", "resolution", "tol", "budget", "max_seconds")
        return {name: getattr(self, name) for name in names}
