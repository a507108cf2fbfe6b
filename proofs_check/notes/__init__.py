"""Notes on speculative decoding [aarnphm2025speculative]: their claims, by section."""

from otspec.proofs_check.claims import Source, Unchecked, claims_of
from otspec.proofs_check.notes import efficiency, lenience, rejection, snippets, verification

KEY = "aarnphm2025speculative"

SOURCE = Source(
    "Speculative decoding (notes)",
    KEY,
    claims_of(rejection, verification, lenience, efficiency, snippets),
    (
        Unchecked(
            "Losses, learning rates and data of EAGLE; HASS, Falcon, MLP Speculator, DistillSpec, SPiRE, MagicDec.",
            KEY,
            "Summaries of other papers, without a statement that numbers could contradict.",
        ),
        Unchecked(
            "num_speculative_tokens = 5 is a good balance; c is about 0; dynamic lengths are a premature optimisation.",
            KEY,
            "Experience, which depends on models and hardware.",
        ),
        Unchecked(
            "EAGLE preserves the output law, Lookahead and Medusa do not.",
            KEY,
            "About systems whose code the notes do not show.  What typical acceptance does to the law is checked.",
        ),
    ),
)

__all__ = ["SOURCE"]
