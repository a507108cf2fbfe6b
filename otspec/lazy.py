"""Public names of a package that are imported when they are first asked for."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def names_of(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Make the ``__getattr__`` of a package.

    Parameters
    ----------
    package : str
        Its ``__name__``.
    homes : mapping of str to str
        From a public name to the module that has it, by its full name.

    Returns
    -------
    callable
        Gives the object of a name, which the package then holds, and raises `AttributeError` for all else.

    Examples
    --------
    >>> from otspec.lazy import names_of
    >>> find = names_of("otspec.lazy", {"Problem": "otspec.problem"})
    >>> find("Problem").__name__
    'Problem'
    >>> find("Fuzzy")
    Traceback (most recent call last):
        ...
    AttributeError: module 'otspec.lazy' has no attribute 'Fuzzy'
    """

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(homes[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return find
