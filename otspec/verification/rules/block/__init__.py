"""Block verification of one path [sun2024block]: on the host, on tensors, and in Triton's kernels."""
