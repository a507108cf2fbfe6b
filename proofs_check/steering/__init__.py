"""Steering pretrained drafters, SD^2 [berdozsteering]: its claims, from the mechanism to the tables."""

from otspec.proofs_check.claims import Source, Unchecked, claims_of
from otspec.proofs_check.steering import mechanism, sampling, tables

KEY = "berdozsteering"

SOURCE = Source(
    "Steering Pretrained Drafters during Speculative Decoding",
    KEY,
    claims_of(mechanism, sampling, tables),
    (
        Unchecked(
            "The mean of the speedups alpha in Tables 1 and 5.",
            KEY,
            "It is not the mean of its row (1.132, printed 1.11, for SD^2 on Qwen3 14B at T = 1).  As a ratio of mean "
            "throughputs, which are not printed, it can be anything between the row's ends.",
        ),
        Unchecked(
            "KL divergence often outperforms total variation as a loss; a steered and unfrozen drafter, random offsets "
            "and a bias inside the MLP are the best choices.",
            f"{KEY}, section 3.3 and appendix A.4",
            "Experiments with trained models; Figures 4 to 6 are not printed as numbers.",
        ),
        Unchecked(
            "W_s = 0 and W_hml = [I I I] leave the drafter as it was and make the steering vector h + m + l; W_s g "
            "does not depend on the draft position, and is computed once per block.",
            f"{KEY}, sections 3.2 and 3.3",
            "By inspection of eq. (2): a product with 0 or with [I I I], and a term without the position.  A check "
            "would compute both sides by the same products.  What the initialisation does to training is checked "
            "(steering-start).",
        ),
        Unchecked("The overhead of steering is negligible.", f"{KEY}, section 3.2", "A matter of hardware."),
    ),
)

__all__ = ["SOURCE"]
