"""Arithmetic of tensors that rules share, and how laws are read: no rule, and no tree.

All sums that decide on a token are in fixed point (`fixed_point`), so that every run and every rank gets the same
answer.  `measures` has the law of the largest of n uniform points, `majorant` the concave majorant of many rows, and
`rows` defines how laws and logits are read, by torch or by Triton (`row_kernels`).
"""
