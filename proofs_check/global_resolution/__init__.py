"""Global Resolution [thomas2025global]: its claims, by section."""

from otspec.proofs_check.claim import Source
from otspec.proofs_check.global_resolution import flow, heuristics, optimum, submodular, text

SOURCE = Source(
    "Global Resolution: Optimal Multi-Draft Speculative Sampling via Convex Minimization",
    "thomas2025global",
    (
        *optimum.CLAIMS,
        *submodular.CLAIMS,
        *flow.CLAIMS,
        *heuristics.CLAIMS,
        *text.CLAIMS,
    ),
    (
        *optimum.UNCHECKED,
        *submodular.UNCHECKED,
        *flow.UNCHECKED,
        *heuristics.UNCHECKED,
        *text.UNCHECKED,
    ),
)

__all__ = ["SOURCE"]
