"""Verification where the laws are: rows and trees of torch tensors, on any device, without synchronisation.

`rows` has the entries for single positions, `trees` that for drafted trees.  The rules are those of
`otspec.verification.rules`, by torch or by Triton's kernels.
"""

from otspec.extras import require

require("torch")

from otspec.verification.device.rows import RowVerification, verify_logits, verify_rows, verify_truncated  # noqa: E402
from otspec.verification.device.trees import verify_trees  # noqa: E402
from otspec.verification.trees.batch import TreeVerification  # noqa: E402
from otspec.verification.trees.layout import Links  # noqa: E402

__all__ = [
    "Links",
    "RowVerification",
    "TreeVerification",
    "verify_logits",
    "verify_rows",
    "verify_trees",
    "verify_truncated",
]
