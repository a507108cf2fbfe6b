"""Optimal transport for multi-draft speculative decoding: one problem object, many solvers, certified plans."""

from typing import TYPE_CHECKING, Any

from otspec import data
from otspec.auditing import Audit, AuditVerdict, audit
from otspec.certificate import Optimum, optimum
from otspec.errors import DataError, MissingExtra, ProblemError, UnknownSolver
from otspec.front_door import solve
from otspec.interval.fast import Batch, Verdict, solve_batch, verify
from otspec.plans import Plan, canonical_decomposition
from otspec.problem import Problem
from otspec.registry import available
from otspec.results import Result, SolveError, Status
from otspec.schemes import IID, DraftScheme, Greedy, HubPairs, Independent, Systematic, Table, TopK, WithoutReplacement

if TYPE_CHECKING:
    from otspec.decode import generate as generate

__version__ = "0.1.0"

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
    "Plan",
    "Problem",
    "ProblemError",
    "Result",
    "SolveError",
    "Status",
    "Systematic",
    "Table",
    "TopK",
    "UnknownSolver",
    "Verdict",
    "WithoutReplacement",
    "audit",
    "available",
    "canonical_decomposition",
    "data",
    "optimum",
    "solve",
    "solve_batch",
    "verify",
]


def __getattr__(name: str) -> Any:
    """`otspec.generate`, which needs torch and transformers, imported when first asked for."""
    if name == "generate":
        from otspec.decode import generate

        return generate
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
