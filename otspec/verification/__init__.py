"""Verification as a decoder needs it: the `interval` rule without a plan, one position or a batch.

`one`, `logits` and `batch` are the entries; `compiled` is the rule for the host, in numba; `reference` is the same rule
in exact rational arithmetic, for tests.

Laws come as a model leaves them, float32 or float64, with a total that a float32 softmax may have left a little off 1.
Each is divided by its total in float64, and all that follows is computed in float64: "lossless" means that the output
has the law p / sum(p) of the p that was given, for drafts that have the law q / sum(q).
"""

from otspec.verification.batch import Batch, solve_batch
from otspec.verification.logits import verify_logits
from otspec.verification.one import Verification, verify

__all__ = ["Batch", "Verification", "solve_batch", "verify", "verify_logits"]
