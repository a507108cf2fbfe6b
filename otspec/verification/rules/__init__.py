"""Rules of verification, a folder or a module each: the rule on the host, on tensors, and in Triton's kernels.

For a position: `interval`, the optimal rule, and `buckets`, the same without a sort.  For a tree: `token_wise`,
`block`, `nested` labels (on tensors among `groups` of tokens), `traversal`, `layer`, `hierarchical`,
`pick_by_plan` for siblings that are drawn jointly, and `match` for fixed drafts.  `protocol` defines what a rule for
trees returns, `catalogue` has them by name.
"""
