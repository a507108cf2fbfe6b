"""The settings that all audits share: how much evidence is asked for, how fine it is, and how long it may take.

This module loads no numpy, so that `otspec audit --help` can list the settings at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, TypedDict

from otspec.errors import ProblemError
from otspec.tolerances import TOL

Progress = Callable[[int, int], None]
"""Is called with what is done and the most that there is to do: cases that are enumerated, or draws."""

LONGEST = 1e12
"""Seconds, some 30 000 years: no limit is larger."""


def no_progress(done: int, most: int) -> None:
    """Ignore how far the audit has come."""


def check_progress(progress: Any) -> None:
    """Check that a function can be told how far the audit has come.

    Raises
    ------
    ProblemError
        If it cannot be called.
    """
    if not callable(progress):
        raise ProblemError(f"progress is {progress!r}; pass a function of (done, most)")


def setting(default: Any, summary: str, kind: str | None = None) -> Any:
    """A field that the command line offers as an option, with its help text, and what it takes if not just its type."""
    return field(default=default, metadata={"help": summary, "kind": kind})


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
    seed: int = setting(0, "Seed of all random numbers; the same seed gives the same audit.", "seed")
    alpha: float = setting(1e-3, "Bound on the probability that a lossless rule is called not lossless.")
    confidence: float = setting(0.99, "Probability that all intervals of the total variation hold together.")
    resolution: float = setting(0.05, "Total variation to which the law of a sampled rule has to be known.")
    tol: float = setting(TOL, "Total variation that the law of an enumerated rule may be off.")
    budget: int = setting(1_000_000, "Largest number of calls of a rule that is sampled.")
    max_seconds: float | None = setting(
        None,
        "Seconds after which the audit stops and says how far it came; the clock is read between calls.",
        "seconds",
    )
    method: str = setting("auto", "The method: exact, sampled, or auto, which is exact where that is possible.")
    pairs: bool = setting(True, "Test whether consecutive outputs are independent.")

    def __post_init__(self) -> None:
        from otspec.laws import as_count  # loads numpy

        object.__setattr__(self, "n", as_count("n", self.n))
        object.__setattr__(self, "budget", as_count("budget", self.budget))
        self._check_numbers()
        self._check_choices()

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

    def _check_numbers(self) -> None:
        import numpy as np

        if isinstance(self.seed, bool) or not isinstance(self.seed, int | np.integer) or self.seed < 0:
            raise ProblemError(f"seed is {self.seed!r}; pass an integer >= 0")
        for name in ("alpha", "confidence", "resolution", "tol", "max_seconds"):
            value = getattr(self, name)
            left_out = name == "max_seconds" and value is None
            if not left_out and (isinstance(value, bool) or not isinstance(value, Real)):
                raise ProblemError(f"{name} is {value!r}; pass a number")
        for name in ("alpha", "confidence", "resolution"):
            if not 0 < getattr(self, name) < 1:
                raise ProblemError(f"{name} is {getattr(self, name)}; it lies between 0 and 1")
        if not 0 <= self.tol < 1:
            raise ProblemError(f"tol is {self.tol}; it is a distance in [0, 1)")
        if self.max_seconds is not None and not 0 < self.max_seconds < LONGEST:
            raise ProblemError(
                f"max_seconds is {self.max_seconds}; it is above 0 and below {LONGEST:g}, or None for no limit"
            )

    def _check_choices(self) -> None:
        import numpy as np

        if not (isinstance(self.method, str) and self.method in ("auto", "exact", "sampled")):
            raise ProblemError(f"method is {self.method!r}; known: auto, exact, sampled")
        if not isinstance(self.pairs, bool | np.bool_):
            raise ProblemError(f"pairs is {self.pairs!r}; pass True or False")
