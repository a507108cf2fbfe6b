"""Verification of one position where the laws are: rows of torch tensors, on any device, without synchronisation.

`entry` is what others call.  `sorted_rows` is the `interval` rule on rows in ascending p/q; `buckets` a rule without a
sort, for large vocabularies.  Both hold `lotteries`, and all their sums are in fixed point (`fixed_point`), so that
every run and every rank gets the same answer.
"""

from otspec.extras import require

require("torch")

from otspec.verification.device.entry import (  # noqa: E402
    RowVerification,
    verify_logits,
    verify_rows,
    verify_truncated,
)

__all__ = ["RowVerification", "verify_logits", "verify_rows", "verify_truncated"]
