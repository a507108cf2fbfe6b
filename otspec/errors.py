"""The errors that otspec raises on purpose; each message names the value, the rule and the way out.

`otspec.results` has one more, `SolveError`, which holds a result.
"""


class ProblemError(ValueError):
    """The input describes no multi-draft problem: a law, a tuple of drafts or a setting is out of its range.

    Examples
    --------
    >>> import otspec
    >>> otspec.Problem([0.5, 0.4], otspec.IID([0.9, 0.1], n=2))
    Traceback (most recent call last):
        ...
    otspec.errors.ProblemError: p sums to 0.9 (allowed: 1 +/- 1e-05). Top-k without renormalising? ...
    """


class DataError(ValueError):
    """A file of positions, or a folder of results, is not what it has to be.

    Examples
    --------
    >>> import otspec
    >>> otspec.data.open_source("nowhere.npz")
    Traceback (most recent call last):
        ...
    otspec.errors.DataError: there is no file nowhere.npz, and no profile has that name ...
    """


class UnknownSolver(LookupError):
    """No solver of that name, or no such setting of it.

    Examples
    --------
    >>> import otspec
    >>> otspec.solve(otspec.Problem([0.5, 0.5], otspec.IID([0.9, 0.1], n=2)), "simplex")
    Traceback (most recent call last):
        ...
    otspec.errors.UnknownSolver: no solver 'simplex'; known: canonical, closed_form, ...
    """


class MissingExtra(ImportError):
    """An optional package is needed here and is not installed.

    Examples
    --------
    >>> import otspec
    >>> problem = otspec.Problem([0.5, 0.5], otspec.IID([0.9, 0.1], n=2))
    >>> try:
    ...     result = otspec.solve(problem, "lp")  # needs highspy, of the extra "solvers"
    ... except otspec.MissingExtra:
    ...     result = otspec.solve(problem, "max_flow")
    >>> result.status.name
    'OPTIMAL'
    """


def one_line(message: object) -> str:
    """A message, of an error say, in one line that is not too long; its type if it says nothing."""
    return " ".join(str(message).split())[:300] or type(message).__name__
