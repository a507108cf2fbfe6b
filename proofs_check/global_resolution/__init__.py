"""Global Resolution [thomas2025global]: its claims, by section."""

from otspec.proofs_check.claim import Source
from otspec.proofs_check.global_resolution import (
    algorithm,
    appendices,
    convex,
    flow,
    guarantees,
    heuristics,
    optimum,
    residuals,
    submodular,
    text,
    transport,
)

WITH_CLAIMS = (
    optimum,
    submodular,
    flow,
    residuals,
    transport,
    convex,
    guarantees,
    algorithm,
    appendices,
    heuristics,
    text,
)
WITH_GAPS = (optimum, submodular, flow, residuals, convex, algorithm, appendices, heuristics, text)

SOURCE = Source(
    "Global Resolution: Optimal Multi-Draft Speculative Sampling via Convex Minimization",
    "thomas2025global",
    tuple(claim for part in WITH_CLAIMS for claim in part.CLAIMS),
    tuple(statement for part in WITH_GAPS for statement in part.UNCHECKED),
)

__all__ = ["SOURCE"]
