"""Draft models that learn from their target, side by side: Table 1 of [berdozsteering] on the shipped target."""
