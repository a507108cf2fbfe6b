"""Optional packages, imported where they are used."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterable
from types import ModuleType

from otspec.errors import MissingExtra

DISTRIBUTION = "otspec-toolkit"
"""What pip calls this package; the name otspec belongs to another project there."""

_EXTRAS = {
    "solvers": ("highspy", "networkx", "igraph"),
    "convex": ("cvxpy",),
    "bench": ("pyarrow",),
    "plot": ("matplotlib",),
    "decode": ("torch", "transformers", "tokenizers", "safetensors"),
}
WAYS_OUT = {
    **{
        package: f'pip install "{DISTRIBUTION}[{extra}]"' for extra, packages in _EXTRAS.items() for package in packages
    },
    "graph_tool": "install python3-graph-tool with the system's package manager, or graph-tool with conda",
}
"""How to get each optional package: a pip extra, or, where pip has none, in words."""


def installed(package: str) -> bool:
    """Whether the optional package can be found (it is not imported)."""
    return importlib.util.find_spec(package) is not None


def missing(packages: Iterable[str]) -> tuple[str, ...]:
    """Those of the optional packages that are not installed."""
    return tuple(package for package in packages if not installed(package))


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
