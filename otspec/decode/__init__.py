"""Multi-draft decoding of language models."""
