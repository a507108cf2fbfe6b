"""What other packages bring: optional ones, imported where they are used, and those that plug into this one."""

from __future__ import annotations

import importlib
import importlib.util
import warnings
from collections.abc import Container, Iterable
from types import ModuleType
from typing import Any

from otspec.errors import MissingExtra

DISTRIBUTION = "otspec-toolkit"
"""What pip calls this package; the name otspec belongs to another project there."""

_EXTRAS = {
    "solvers": ("highspy", "networkx", "igraph", "ot"),
    "convex": ("cvxpy",),
    "bench": ("polars", "pydantic"),
    "report": ("altair", "vl_convert", "jinja2"),
    "triton": ("triton",),
    "decode": ("torch", "transformers", "tokenizers", "safetensors"),
    "offload": ("accelerate",),
    "gguf": ("gguf",),
}
WAYS_OUT = {
    **{
        package: f'pip install "{DISTRIBUTION}[{extra}]"' for extra, packages in _EXTRAS.items() for package in packages
    },
    "vllm": "pip install vllm",
    "graph_tool": "install python3-graph-tool with the system's package manager, or graph-tool with conda",
}
"""How to get each optional package: a pip extra, or, where pip has none, in words."""


def installed(package: str) -> bool:
    """Whether the optional package can be found (it is not imported)."""
    return importlib.util.find_spec(package) is not None


def missing(packages: Iterable[str]) -> tuple[str, ...]:
    """Those of the optional packages that are not installed."""
    return tuple(package for package in packages if not installed(package))


def require_extra(*extras: str) -> None:
    """Check that all packages of some extras are there, without importing them.

    Raises
    ------
    MissingExtra
        For the first that is not.
    """
    for package in missing(package for extra in extras for package in _EXTRAS[extra]):
        raise MissingExtra(f"{package} is not installed and is needed here: {WAYS_OUT[package]}")


def require(module: str) -> ModuleType:
    """Import an optional module, or say how to install it.

    Raises
    ------
    MissingExtra
        If its package is not installed.  A package that is there and broken raises its own error.
    """
    package = module.partition(".")[0]
    if not installed(package):
        raise MissingExtra(f"{package} is not installed and is needed here: {WAYS_OUT[package]}")
    return importlib.import_module(module)


def plugins(group: str, taken: Container[str]) -> dict[str, Any]:
    """What other packages offer under a group of entry points, by name.

    One that cannot be imported, or whose name is taken, is left out with a warning, since callers that need
    something else can do nothing about it.

    Parameters
    ----------
    group : str
        Of entry points.
    taken : container of str
        Names that no other package can have.

    Returns
    -------
    dict of str to object
    """
    from importlib.metadata import entry_points  # takes as long as all else that a command imports of ours

    found: dict[str, Any] = {}
    for entry in entry_points(group=group):
        origin = f"the entry point {entry.name!r} of {entry.dist.name if entry.dist else entry.value}, in {group},"
        if entry.name in taken or entry.name in found:
            warnings.warn(f"{origin} is ignored: the name is taken", stacklevel=2)
            continue
        try:
            found[entry.name] = entry.load()
        except Exception as error:
            warnings.warn(f"{origin} is ignored: {type(error).__name__}: {error}", stacklevel=2)
    return found
