"""The errors that otspec raises on purpose; each message names the value, the rule and the way out.

`otspec.results` has one more, `SolveError`, which holds a result.
"""


class ProblemError(ValueError):
    """The input describes no multi-draft problem: a law, a tuple of drafts or a setting is out of its range."""


class DataError(ValueError):
    """A file of positions, or a folder of results, is not what it has to be."""


class UnknownSolver(LookupError):
    """No solver of that name, or no such setting of it."""


class MissingExtra(ImportError):
    """An optional package is needed here and is not installed."""
