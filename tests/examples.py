"""The examples in the docstrings of packages: who has one, and what is wrong with it when it runs."""

from __future__ import annotations

import doctest
import importlib
import inspect
from collections.abc import Iterable

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def public(packages: Iterable[str]) -> dict[str, object]:
    """The classes and functions that these packages offer, by their full names."""
    offered = {
        f"{package}.{name}": getattr(module, name)
        for package in packages
        for module in [importlib.import_module(package)]
        for name in module.__all__
    }
    return {name: found for name, found in offered.items() if inspect.isclass(found) or inspect.isfunction(found)}


def has_example(found: object) -> bool:
    """Whether there is one in the docstring."""
    return ">>> " in (found.__doc__ or "")


def without_example(offered: dict[str, object]) -> set[str]:
    """Names that have none; protocols, which are not there to be called, need none."""
    return {
        name for name, found in offered.items() if not has_example(found) and not getattr(found, "_is_protocol", False)
    }


def told_by(found: object) -> str:
    """What doctest has to say against the example: nothing, if it prints what it says."""
    name = getattr(found, "__qualname__", "")
    (example,) = doctest.DocTestFinder(recurse=False).find(found, name, globs={})
    told: list[str] = []
    doctest.DocTestRunner(verbose=False, optionflags=FLAGS).run(example, out=told.append)
    return "".join(told)
