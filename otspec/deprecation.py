"""Public names that were renamed or left the package: the old spelling works for one release, or says where to go."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Mapping
from typing import Any


def former_names(
    module: str, renamed: Mapping[str, str], removed: Mapping[str, str] | None = None
) -> Callable[[str], Any]:
    """Make the ``__getattr__`` of a module whose public names have changed.

    Parameters
    ----------
    module : str
        The module's ``__name__``.
    renamed : mapping of str to str
        From the former name to the present one, a name of the same module, or ``"package.module:name"``.
    removed : mapping of str to str, optional
        From a name that is gone to a sentence that says what to use, or where to read why.

    Returns
    -------
    callable
        Gives the present object of a former name, with a `FutureWarning`, and raises `AttributeError` for all else.

    Examples
    --------
    >>> import warnings
    >>> from otspec.deprecation import former_names
    >>> lookup = former_names("otspec.errors", {"LawError": "ProblemError"}, {"Fuzzy": "it gained nothing"})
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     print(lookup("LawError").__name__)
    ProblemError
    >>> print(caught[0].message)
    otspec.errors.LawError is now called otspec.errors.ProblemError; the old name goes with the next release
    >>> lookup("Fuzzy")
    Traceback (most recent call last):
        ...
    AttributeError: otspec.errors.Fuzzy is gone: it gained nothing
    """

    def lookup(name: str) -> Any:
        if name in renamed:
            home, _, present = renamed[name].rpartition(":")
            home = home or module
            warnings.warn(
                f"{module}.{name} is now called {home}.{present}; the old name goes with the next release",
                FutureWarning,
                stacklevel=3,
            )
            return getattr(importlib.import_module(home), present)
        if removed and name in removed:
            raise AttributeError(f"{module}.{name} is gone: {removed[name]}")
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return lookup


def former_field(of: Any, former: str, present: str) -> Any:
    """Read a field under its former name: what the property of that name returns.

    Parameters
    ----------
    of : object
        What has the field.
    former, present : str
        Both names of the field.

    Returns
    -------
    object
        The field, after a `FutureWarning`.

    Examples
    --------
    >>> import warnings
    >>> from typing import NamedTuple
    >>> from otspec.deprecation import former_field
    >>> class Found(NamedTuple):
    ...     valid: bool
    ...
    ...     @property
    ...     def sound(self) -> bool:
    ...         return former_field(self, "sound", "valid")
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     Found(True).sound
    True
    >>> print(caught[0].message)
    Found.sound is now called Found.valid; the old name goes with the next release
    """
    owner = type(of).__name__
    warnings.warn(
        f"{owner}.{former} is now called {owner}.{present}; the old name goes with the next release",
        FutureWarning,
        stacklevel=3,
    )
    return getattr(of, present)
