"""Verification of drafts: which prefix, and which token after it, for one position or a drafted tree.

Offered here is the optimal rule for one position: `one`, `logits` and `batch` are the entries.  `otspec.paths` offers
the rules for trees, and `device` both for tensors.  Inside, from the ground up: `tensors` is arithmetic, `trees` has
the types of drafted trees, `rules` every rule with its implementations, `device` the entries for tensors, `reference`
what is slow and exact, `evaluation` how deep a rule gets, and `bounds` what none can exceed.

Laws come as a model leaves them, float32 or float64, with a total that a float32 softmax may have left a little off 1.
Each is divided by its total in float64, and all that follows is computed in float64: "lossless" means that the output
has the law p / sum(p) of the p that was given, for drafts that have the law q / sum(q).
"""

from otspec.verification.batch import Batch, solve_batch
from otspec.verification.logits import verify_logits
from otspec.verification.one import Verification, verify

__all__ = ["Batch", "Verification", "solve_batch", "verify", "verify_logits"]
