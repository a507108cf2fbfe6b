"""Optimal transport for multi-draft speculative decoding: one problem object, many solvers, certified plans.

Everything is imported when first asked for, so that `import otspec` costs nothing by itself.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from otspec import auditing, data, paths, plans, schemes, solvers, verification, vocab
    from otspec import decode as decode
    from otspec import proofs_check as proofs_check
    from otspec.auditing import Audit, AuditVerdict, PathAudit, audit, audit_paths
    from otspec.catalogue import available
    from otspec.certificate import Optimum, optimum
    from otspec.decode import generate as generate
    from otspec.errors import DataError, MissingExtra, ProblemError, UnknownSolver
    from otspec.plans import Plan, canonical_decomposition
    from otspec.pricing import lossy
    from otspec.problem import Problem
    from otspec.results import Result, Solved, SolveError, Status
    from otspec.schemes import (
        IID,
        DraftScheme,
        Greedy,
        HubPairs,
        Independent,
        Table,
        TopK,
        WithoutReplacement,
        check_scheme,
    )
    from otspec.solving import solve
    from otspec.verification import Batch, Verification, solve_batch, verify, verify_logits
    from otspec.walltime import speed_up
    from otspec.warming import warm_up

__version__ = "0.2.0"

_SUBPACKAGES = (
    "auditing",
    "data",
    "decode",
    "paths",
    "plans",
    "proofs_check",
    "schemes",
    "solvers",
    "verification",
    "vocab",
)
_HOMES = {
    "auditing": ("Audit", "AuditVerdict", "PathAudit", "audit", "audit_paths"),
    "catalogue": ("available",),
    "certificate": ("Optimum", "optimum"),
    "decode": ("generate",),
    "errors": ("DataError", "MissingExtra", "ProblemError", "UnknownSolver"),
    "plans": ("Plan", "canonical_decomposition"),
    "pricing": ("lossy",),
    "problem": ("Problem",),
    "results": ("Result", "SolveError", "Solved", "Status"),
    "schemes": (
        "IID",
        "DraftScheme",
        "Greedy",
        "HubPairs",
        "Independent",
        "Table",
        "TopK",
        "WithoutReplacement",
        "check_scheme",
    ),
    "solving": ("solve",),
    "verification": ("Batch", "Verification", "solve_batch", "verify", "verify_logits"),
    "walltime": ("speed_up",),
    "warming": ("warm_up",),
}
"""The public names by the module that has them; no module is called like one of its functions."""
_HOME_OF = {name: (module, name) for module, names in _HOMES.items() for name in names}

__all__ = [
    "IID",
    "Audit",
    "AuditVerdict",
    "Batch",
    "DataError",
    "DraftScheme",
    "Greedy",
    "HubPairs",
    "Independent",
    "MissingExtra",
    "Optimum",
    "PathAudit",
    "Plan",
    "Problem",
    "ProblemError",
    "Result",
    "SolveError",
    "Solved",
    "Status",
    "Table",
    "TopK",
    "UnknownSolver",
    "Verification",
    "WithoutReplacement",
    "audit",
    "audit_paths",
    "auditing",
    "available",
    "canonical_decomposition",
    "check_scheme",
    "data",
    "lossy",
    "optimum",
    "paths",
    "plans",
    "schemes",
    "solve",
    "solve_batch",
    "solvers",
    "speed_up",
    "verification",
    "verify",
    "verify_logits",
    "vocab",
    "warm_up",
]


def __getattr__(name: str) -> Any:
    if name in _SUBPACKAGES:
        return importlib.import_module(f"otspec.{name}")
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _HOME_OF[name]
    value = globals()[name] = getattr(importlib.import_module(f"otspec.{module}"), attribute)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_HOME_OF, *_SUBPACKAGES})
