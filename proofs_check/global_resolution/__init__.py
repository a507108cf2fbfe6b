"""Global Resolution [thomas2025global]: its claims, by section."""

from otspec.proofs_check.claims import Source, claims_of
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
    claims_of(*WITH_CLAIMS),
    tuple(statement for part in WITH_GAPS for statement in part.UNCHECKED),
)

__all__ = ["SOURCE"]
