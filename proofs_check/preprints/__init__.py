"""Preprints of 2025 and 2026, a module each; what was at hand of each is said in the remarks of its claims."""

from otspec.proofs_check.claim import Source
from otspec.proofs_check.preprints import acceptance, budgets, coverage, losses, races, rescaling, speed_of_light

SOURCES = (
    Source(
        "When Is a Draft Accepted? A Theory of Acceptance in Speculative Decoding",
        acceptance.KEY,
        (*acceptance.CLAIMS, *coverage.CLAIMS),
    ),
    speed_of_light.SOURCE,
    races.SOURCE,
    rescaling.SOURCE,
    losses.SOURCE,
    budgets.SOURCE,
)

__all__ = ["SOURCES"]
