"""Redistributing drafter kernels [timor2025out]: its claims, by subject."""

from otspec.proofs_check.claims import Source, Unchecked, claims_of
from otspec.proofs_check.rdk import linear, sampler, softmax

SOURCE = Source(
    "Out-of-Vocabulary Sampling Boosts Speculative Decoding",
    "timor2025out",
    claims_of(sampler, softmax, linear),
    (
        Unchecked(
            "RDK by equation (3) keeps an almost constant acceptance rate of 26.7 % under extreme pruning.",
            "timor2025out, section 6.2, Figures 6 and 7",
            "The scale of the targets, the drafter and the covariance are not given. Whatever they are, equation (3) "
            "is within theta / N of TLI (rdk-equation-3-is-tli). `python -m benchmarks.rdk` draws the figures, and "
            "finds a plateau where a redistributed law is nearly uniform, and only there.",
        ),
        Unchecked(
            "Equation (3) takes O(N) operations, where M^T q' takes O(N^2).",
            "timor2025out, section 4",
            "Running times, and so by inspection: a handful of sums and products per token, 9 N - 2 in all, against "
            "2 N^2 - N. `otspec.vocab.rdk_linear` computes it on arrays of N numbers.",
        ),
        Unchecked(
            "Frequency-ranked pruning keeps the rows of the m most frequent tokens.",
            "timor2025out, Algorithm 3",
            "A definition; `otspec.vocab.frequency_prune` is tested against it.",
        ),
        Unchecked(
            "Logits follow a Student t law; 12.6 % of tokens hold 95 % of the mass; RDK accepts most on Qwen3-0.6B.",
            "timor2025out, section 6.1, Figures 1 to 4 and 8 to 12",
            "Measured on models and data.",
        ),
    ),
)

__all__ = ["SOURCE"]
