"""Preprints of 2025 and 2026, a module each; what was at hand of each is in the remarks of its claims."""

from otspec.proofs_check.claims import Source, Unchecked, claims_of
from otspec.proofs_check.preprints import acceptance, budgets, coverage, losses, lossy, races, rescaling, speed_of_light

SOURCES = (
    Source(
        "When Is a Draft Accepted? A Theory of Acceptance in Speculative Decoding",
        acceptance.KEY,
        claims_of(acceptance, coverage),
        (
            Unchecked(
                "The paper's own formulas; on Qwen3 models relaxed rules and trees certify many more steps.",
                acceptance.ABSTRACT,
                "The abstract promises exact divergences and sharp margins, which are derived and checked here; what "
                "the paper prints was not at hand.  The second is a measurement.",
            ),
        ),
    ),
    speed_of_light.SOURCE,
    races.SOURCE,
    rescaling.SOURCE,
    losses.SOURCE,
    budgets.SOURCE,
    *lossy.SOURCES,
)

__all__ = ["SOURCES"]
