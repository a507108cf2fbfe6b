"""Verification where the laws are: rows and trees of torch tensors, on any device, without synchronisation.

`entry` is what others call for single positions, `trees` for drafted trees.  `sorted_rows` is the `interval` rule on
rows in ascending p/q; `buckets` a rule without a sort, for large vocabularies.  Both hold `lotteries`, and all their
sums are in fixed point (`fixed_point`), so that every run and every rank gets the same answer.

Trees have a `layout`.  They are verified token by token (`token_wise`), or a path of theirs as a block (`blocks`): the
first one, or one that is picked by labels (`nested`), which prefixes share (`sharing`) on a grid (`grid`).

Where Triton is the way, `by_token_kernels` does rows, and trees token by token, by the problems of `by_bucket_kernels`;
`by_path_kernels` does block verification, and `by_label_kernels` labels, of tokens in groups by `by_group_kernels`.
"""

from otspec.extras import require

require("torch")

from otspec.verification.device.entry import (  # noqa: E402
    RowVerification,
    verify_logits,
    verify_rows,
    verify_truncated,
)
from otspec.verification.device.layout import Links  # noqa: E402
from otspec.verification.device.trees import TreeVerification, verify_trees  # noqa: E402

__all__ = [
    "Links",
    "RowVerification",
    "TreeVerification",
    "verify_logits",
    "verify_rows",
    "verify_trees",
    "verify_truncated",
]
