"""Optimal transport for multi-draft speculative decoding: one problem object, many solvers, certified plans.

Everything is imported on first use, so that `import otspec` costs nothing by itself.
"""

from typing import TYPE_CHECKING

from otspec.lazy import attach

if TYPE_CHECKING:
    from otspec import auditing, data, plans, schemes, solvers, verification, vocab
    from otspec import decode as decode
    from otspec import proofs_check as proofs_check
    from otspec.auditing import Audit, AuditVerdict, PathAudit, audit, audit_paths
    from otspec.catalogue import available
    from otspec.certificate import Optimum, optimum
    from otspec.decode import generate as generate
    from otspec.errors import DataError, MissingExtra, ProblemError, UnknownSolver
    from otspec.plans import Plan, canonical_decomposition
    from otspec.pricing import best_lossy_plan
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
    "best_lossy_plan",
    "canonical_decomposition",
    "check_scheme",
    "data",
    "optimum",
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

__getattr__, __dir__ = attach(__name__)
