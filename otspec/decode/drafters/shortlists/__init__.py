"""Drafting from part of the vocabulary: FR-Spec's fixed tokens, fewer with depth, or clusters by DynaSpec's router."""
