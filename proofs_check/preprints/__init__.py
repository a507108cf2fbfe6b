"""Preprints of 2025 and 2026, a module each; what was at hand of each is in the remarks of its claims."""

from otspec.proofs_check.claims import Source
from otspec.proofs_check.preprints import acceptance, budgets, coverage, losses, lossy, races, rescaling, speed_of_light

SOURCES = (
    Source.of(
        "When Is a Draft Accepted? A Theory of Acceptance in Speculative Decoding", acceptance.KEY, acceptance, coverage
    ),
    Source.of(
        "Speculative Decoding Speed-of-Light: Optimal Lower Bounds via Branching Random Walks",
        speed_of_light.KEY,
        speed_of_light,
    ),
    Source.of("Speculative Sampling via Exponential Races", races.KEY, races),
    Source.of("Speculative Speculative Decoding", rescaling.KEY, rescaling),
    Source.of("LK Losses: Direct Acceptance Rate Optimization for Speculative Decoding", losses.KEY, losses),
    Source.of("Cost-Aware Diffusion Draft Trees for Speculative Decoding", budgets.KEY, budgets),
    *lossy.SOURCES,
)

__all__ = ["SOURCES"]
