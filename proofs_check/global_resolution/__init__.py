"""Global Resolution [thomas2025global]: its claims, by section."""

from otspec.proofs_check.claims import Source
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

SOURCE = Source.of(
    "Global Resolution: Optimal Multi-Draft Speculative Sampling via Convex Minimization",
    "thomas2025global",
    *(optimum, submodular, flow, residuals, transport, convex, guarantees, algorithm, appendices, heuristics, text),
)

__all__ = ["SOURCE"]
