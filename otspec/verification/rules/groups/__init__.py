"""Tokens of nearly equal p/q in groups, by torch and by Triton's kernels: what labels on tensors are shared among."""
