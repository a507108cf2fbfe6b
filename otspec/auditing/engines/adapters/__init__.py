"""Engines by name, one module each; those of other packages by entry points of the group `otspec.engines`.

A function of the user's is an engine as well: `otspec.auditing.engines.adapters.function`.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from typing import Any, cast

from otspec.auditing.engines.engine import Engine
from otspec.errors import ProblemError
from otspec.extras import plugins

ENTRY_POINTS = "otspec.engines"
"""Group of entry points by which other packages bring adapters: a name, and what makes an engine of settings."""

HOMES = {
    "http": "otspec.auditing.engines.adapters.http:Http",
    "transformers": "otspec.auditing.engines.adapters.transformers:Transformers",
    "otspec": "otspec.auditing.engines.adapters.decoder:Decoder",
}
"""Module and class of each adapter of this package, imported when it is asked for."""


def start(name: str, settings: Mapping[str, Any]) -> Engine:
    """Start an engine by its name in `HOMES`, or of an entry point, with keywords of the adapter's constructor.

    Raises
    ------
    ProblemError
        If there is no such adapter or it has no such setting, or for reasons of its own.
    MissingExtra
        If its package is not installed.
    """
    return make(name, _maker(name), settings)


def make(name: str, maker: Callable[..., Any], settings: Mapping[str, Any]) -> Engine:
    """Call what makes an engine, with the settings that it has.

    Raises
    ------
    ProblemError
        If it has no such setting, lacks one, or makes no engine.
    """
    taken = inspect.signature(maker).parameters
    if not any(one.kind is one.VAR_KEYWORD for one in taken.values()):
        for setting in settings:
            if setting not in taken:
                raise ProblemError(f"{name} has no setting {setting!r}; it has {', '.join(taken)}")
    plain = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    needed = [one.name for one in taken.values() if one.default is one.empty and one.kind in plain]
    if lacking := [one for one in needed if one not in settings]:
        raise ProblemError(f"{name} needs the setting {lacking[0]!r}; it has {', '.join(taken)}")
    engine = maker(**settings)
    if lacking := [one for one in ("name", "version", "method", "texts", "acceptance") if not hasattr(engine, one)]:
        raise ProblemError(
            f"{name} makes {type(engine).__name__}, which lacks {', '.join(lacking)}: see "
            "otspec.auditing.engines.Engine"
        )
    return cast(Engine, engine)


def _maker(name: str) -> Callable[..., Any]:
    if (home := HOMES.get(name)) is not None:
        module, _, adapter = home.partition(":")
        found: Callable[..., Any] = getattr(importlib.import_module(module), adapter)
        return found
    others = plugins(ENTRY_POINTS, taken=HOMES)
    if name not in others:
        raise ProblemError(
            f"no engine {name!r}; known: {', '.join(sorted([*HOMES, *others]))}, or a function of yours, "
            "module:function or path/to/file.py:function"
        )
    maker: Callable[..., Any] = others[name]
    return maker
