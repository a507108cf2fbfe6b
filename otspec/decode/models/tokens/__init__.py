"""Two tokenizers: how tokens are spelt in bytes, what two vocabularies have in common, and what stands for what."""
