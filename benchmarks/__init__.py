"""Scripts that measure: one per question, run as ``python -m benchmarks.NAME``."""
