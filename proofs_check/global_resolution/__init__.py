"""Global Resolution [thomas2025global]: its claims, by section."""

from otspec.proofs_check.claim import Source
from otspec.proofs_check.global_resolution import flow, optimum

SOURCE = Source(
    "Global Resolution: Optimal Multi-Draft Speculative Sampling via Convex Minimization",
    "thomas2025global",
    (*optimum.CLAIMS, *flow.CLAIMS),
)

__all__ = ["SOURCE"]
