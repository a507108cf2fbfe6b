"""What decoding needs of a transformers model: loading, matching, passes over trees, caches."""
